"""Ops and the functions made of them; the tables that say what each op takes, gives, computes and changes."""
