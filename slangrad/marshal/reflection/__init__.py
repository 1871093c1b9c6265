"""Types of a module as users see them, and memory read and written by the names of their fields."""
