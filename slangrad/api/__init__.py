"""The public face: devices, modules, structs, functions."""
