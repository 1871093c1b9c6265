"""From the values of a call to a bound call: its function, and the way of each argument into it."""
