"""What a type, a value, a reference and a meaning is, and what is written down about the AST."""
