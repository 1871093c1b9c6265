"""What a program is made of: types, functions, variables, memory, and the resolution of calls."""
