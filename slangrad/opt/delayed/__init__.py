"""Float adds that threads share, delayed to the end of the launch: the plan, the adds, the reduction."""
