"""`python -m slangrad` is the command `slangrad`, or a process that compiles kernels for another one."""

import sys
from importlib import import_module

if sys.argv[1:] == ["compile-worker"]:
    import_module("slangrad.call.compiling.worker").main()
else:
    import_module("slangrad.cli.main").app()
