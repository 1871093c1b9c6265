"""What bodies are made of: expressions and statements."""
