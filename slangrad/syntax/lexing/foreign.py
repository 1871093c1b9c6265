"""Words of C, C++, CUDA and Python, and their form in Slang. Errors show this as a note.

In: "and".   Out: "Slang writes '&&'", or None.
"""

from __future__ import annotations

FUNCTIONS = "functions have no prefix in Slang: sin(x), sqrt(x), dot(a, b)"
KERNELS = 'a kernel is marked [shader("compute")] [numthreads(64, 1, 1)]; other functions need no mark'
CONVERSIONS = "Slang writes conversions as 'int(x)' or '(int)x'"

# Slang has no meaning for these, so a syntax error beside one is about it.
# fmt: off
SYNTAX = {
    "and":              "Slang writes '&&'",
    "or":               "Slang writes '||'",
    "not":              "Slang writes '!'",
    "template":         "Slang writes a generic function as 'T f<T : IArithmetic>(T x)'",
    "typename":         "Slang writes a generic function as 'T f<T : IArithmetic>(T x)'",
    "__global__":       KERNELS,
    "__device__":       KERNELS,
    "__host__":         KERNELS,
    "__shared__":       "Slang writes 'groupshared' for memory of a group",
}

# These begin a statement, so a syntax error later on the line is about them.
STATEMENTS = {
    "elif":             "Slang writes 'else if (condition)'",
    "def":              "Slang writes a function as 'float f(float x) { return x; }'",
    "goto":             "Slang has no 'goto'; loops can have labels: 'break name;'",
}
CHOICE =                "Slang writes 'condition ? a : b'"

# Any program may use these as names, so they are explained only where nothing is declared with the name.
NAMES = {
    **SYNTAX,
    **STATEMENTS,
    "auto":             "Slang writes 'var y = x;', or 'let y = x;' for a value that does not change",
    "True":             "Slang writes 'true'",
    "False":            "Slang writes 'false'",
    "None":             "Slang writes 'none' for an Optional, 'nullptr' for a pointer",
    "print":            "Slang writes 'printf(\"%f\\n\", x)'",
    "std":              FUNCTIONS,
    "np":               FUNCTIONS,
    "jnp":              FUNCTIONS,
    "numpy":            FUNCTIONS,
    "torch":            FUNCTIONS,
    "math":             FUNCTIONS,
    "static_cast":      CONVERSIONS,
    "reinterpret_cast": CONVERSIONS,
    "const_cast":       CONVERSIONS,
    "dynamic_cast":     CONVERSIONS,
}
# fmt: on
