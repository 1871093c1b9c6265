"""The meeting point of the compiler: types, values, the primitive table, text form, verifier, oracle.

Depends on no syntax, checker or target. `ARCHITECTURE.md` lists its folders.
"""
