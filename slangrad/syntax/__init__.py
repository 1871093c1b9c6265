"""Text to AST: lexer, preprocessor, parser."""
