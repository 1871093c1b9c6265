"""The launch in machine code: its record, its reports, its end."""
