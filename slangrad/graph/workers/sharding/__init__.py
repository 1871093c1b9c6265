"""The graph of one worker: index maps of operators, a spec for each node, and collectives where specs change."""
