"""What can be read and assigned: variables and parts of them, memory, what is outside of functions."""
