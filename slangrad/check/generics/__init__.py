"""Type arguments: substituted, compared, inferred."""
