"""Python values as arguments: one file for each kind."""
