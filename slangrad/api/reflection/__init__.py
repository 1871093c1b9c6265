"""The parts of a program: types, functions, variables, memory, entry points."""
