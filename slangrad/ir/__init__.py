"""The meeting point of the compiler: types, values, the primitive table, text form, verifier, oracle.

Knows no syntax, no checker and no target. Its rooms stand in `ARCHITECTURE.md`.
"""
