"""Types, values, references and meanings, and the annotations of the AST."""
