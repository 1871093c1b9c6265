"""Places that can be read and assigned: variables and parts of them, memory, variables outside of functions."""
