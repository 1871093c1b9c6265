"""The launch as machine code sees it: its record, its reports, its end."""
