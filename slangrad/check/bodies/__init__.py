"""Bodies and headers of declarations, and their parts."""
