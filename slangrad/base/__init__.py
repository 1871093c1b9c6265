"""Text, errors and options: the layer below all others."""
