"""Ops and the functions made of them; the tables of types, arithmetic, derivatives and effects of ops."""
