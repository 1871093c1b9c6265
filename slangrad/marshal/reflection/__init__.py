"""The public types of a module, and memory read and written by the names of their fields."""
