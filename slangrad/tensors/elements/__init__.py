"""Elements without memory: their types in Slang, NumPy and PyTorch, shapes and views, and conversions of values."""
