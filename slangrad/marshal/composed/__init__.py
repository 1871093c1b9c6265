"""Arguments that may be made of others, and results: numbers, structs, lists."""
