"""Sources of texts: files, the standard library, and linked modules."""
