"""Which calls stay calls, and bodies where the others were."""
