"""Sessions: the objects derived from texts between two reloads, and their copies on disk."""
