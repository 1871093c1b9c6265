"""Which calls stay calls, and the inlining of the others."""
