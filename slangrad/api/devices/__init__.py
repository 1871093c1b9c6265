"""Devices: memory, settings, features, reports, and the current one."""
