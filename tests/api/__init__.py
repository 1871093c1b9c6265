"""Devices, modules, structs and functions, on both devices."""
