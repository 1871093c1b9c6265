"""The command line: run, check, dump, doctor."""
