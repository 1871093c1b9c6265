"""Devices: memory, settings, what they can do and tell, and which one is current."""
