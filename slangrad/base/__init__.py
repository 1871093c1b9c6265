"""Text, errors and options: what every other layer stands on."""
