"""Arguments that may contain other arguments, and results: numbers, structs, lists."""
