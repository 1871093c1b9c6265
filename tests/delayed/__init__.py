"""Float adds that wait for the end of the launch."""
