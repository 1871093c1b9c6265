"""What types become; the function that is being made, and what lower rooms ask of higher ones."""
