"""Calls with torch tensors as operations of autograd."""
