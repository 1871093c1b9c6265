"""The checker and the compiler for calls, in one place. It is loaded as a whole, and only when a module
or a call is met that no earlier process has kept.
"""

from slangrad.call.binding.binding import Binder
from slangrad.call.binding.program import ModuleTypes, candidate_of
from slangrad.call.compiling.compile import KernelCompiler
from slangrad.check.modules import CheckedProgram
from slangrad.check.reflect import Reflection, without_library

__all__ = [
    "Binder",
    "CheckedProgram",
    "KernelCompiler",
    "ModuleTypes",
    "Reflection",
    "candidate_of",
    "without_library",
]
