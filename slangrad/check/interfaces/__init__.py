"""Members of types, witnesses of interfaces, differential types."""
