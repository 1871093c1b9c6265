"""Graphs to graphs of groups: rules, choices by cost, fusion."""
