"""From a bound call to a launch: what is computed once for each signature, and its block of arguments."""
