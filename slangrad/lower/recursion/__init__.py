"""Functions that call themselves become loops: IR to IR, without the AST."""
