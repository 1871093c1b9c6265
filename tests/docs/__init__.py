"""The documents' code runs, and the examples print what they promise."""
