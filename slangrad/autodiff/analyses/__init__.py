"""What is known of a function before it is differentiated: activity, loops, effects, zeros."""
