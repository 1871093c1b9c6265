"""The functions of a program, each made once for its type arguments."""
