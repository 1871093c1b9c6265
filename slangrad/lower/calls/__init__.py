"""Calls, what is one in the end, and the places that functions give."""
