"""The oracle: an interpreter of IR at any stage, and the reference for machine code."""
