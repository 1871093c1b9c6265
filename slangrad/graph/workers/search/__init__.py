"""`partition="auto"`: the ways to shard each part of a graph, and the cheapest of them together."""
