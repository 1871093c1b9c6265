"""Facts about a function before differentiation: activity, loops, effects, zeros."""
