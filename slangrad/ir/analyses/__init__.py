"""Facts about functions that more than one folder needs: origins of addresses, bounds of numbers, calls."""
