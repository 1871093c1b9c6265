"""The time of a step: kernels, collectives and messages of workers that may not be here."""
