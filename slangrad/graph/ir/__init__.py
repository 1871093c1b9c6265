"""Nodes, the table of operators, and how arrays lie in memory."""
