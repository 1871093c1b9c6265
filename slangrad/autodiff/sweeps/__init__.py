"""From a function and its plan to the functions of its derivatives: forward mode, and both sweeps of reverse mode."""
