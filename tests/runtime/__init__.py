"""Memory, launches, threads, reports."""
