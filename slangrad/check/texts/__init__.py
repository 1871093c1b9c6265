"""Where texts come from: files, the standard library, and what modules leave open for each other."""
