"""Text to tokens: lexer, preprocessor, macros."""
