"""From a flat kernel to code: a file for each target."""
