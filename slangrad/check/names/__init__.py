"""What a name means: alone, behind a dot, with type arguments, in brackets."""
