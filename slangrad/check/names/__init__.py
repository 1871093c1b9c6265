"""The meaning of a name: alone, behind a dot, with type arguments, in brackets."""
