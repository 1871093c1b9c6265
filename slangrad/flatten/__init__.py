"""IR to IR: aggregates to scalars and memory. After it only scalars, pointers and control flow are left."""
