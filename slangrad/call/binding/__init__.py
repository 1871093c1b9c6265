"""From the values of a call to a bound call: the function that is meant, and how each argument goes there."""
