"""IR as text, and the rules that it must keep."""
