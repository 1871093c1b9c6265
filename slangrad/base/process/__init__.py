"""The process: threads, locks at a fork, warnings, and objects that belong to it."""
