"""What becomes of a flat kernel: a file for each target."""
