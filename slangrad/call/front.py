"""The checker and the compiler for calls, in one place. Loaded as a whole, for a module or call that is not on
disk.
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
