"""Sessions: what was made of texts, from one reload to the next, and where it is kept."""
