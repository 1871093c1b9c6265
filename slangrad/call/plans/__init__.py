"""From a bound call to a launch: the plan of a signature, and the block of arguments."""
