"""What is done to values, whatever expressions they come from."""
