"""Errors of calls from Python: a code, a sentence, what was tried, one thing to try.

In: the parts.   Out: an exception whose text shows them:

    error[E1005]: Could not call function 'f': Shape mismatch for argument 'b' between value (4) and call (3) in ...
      b         numpy float32 array of 1 dimension  (4,)   (0,)
    note: sizes of one call dimension must be equal or 1; map() chooses other dimensions

All are ValueErrors, look-ups are AttributeErrors, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import ParamSpec, TypeVar

from slangrad.base.diagnostics import CODES, CompileError, SlangCompileError

P = ParamSpec("P")
T = TypeVar("T")


class CallError(ValueError, RuntimeError):
    """A call, or a setting of one, that cannot be done. Programs written for SlangPy catch either base."""

    def __init__(self, code: str, message: str, details: Iterable[str] = (), note: str | None = None) -> None:
        self.code = code
        self.message = message
        self.details = tuple(details)
        self.note = note
        super().__init__(describe(code, message, self.details, note))

    def __reduce__(self) -> tuple[object, ...]:
        """Pools of processes send errors as pickles."""
        return BaseException.__new__, (type(self), *self.args), self.__dict__

    def about(self, verb: str, target: str) -> None:
        """Prefix the message with the action and its object: "call", "function 'f'"; without the object if the
        message names it."""
        if target not in self.message:
            self.message = f"Could not {verb} {target}: {self.message}"
            self.args = (describe(self.code, self.message, self.details, self.note),)


class BoundVariableException(CallError):
    """A Python value that cannot be an argument, or not of this parameter."""


class ResolveException(CallError):
    """No candidate, or more than one, takes these arguments."""


class KernelGenException(CallError):
    """The kernel of a call could not be written or compiled."""


class CallCompileError(KernelGenException, SlangCompileError):
    """The compiler refused the kernel of a call."""

    @classmethod
    def of(cls, error: CompileError) -> CallCompileError:
        """Errors in the text of the user, as they are."""
        errors = [diagnostic for diagnostic in error.diagnostics if diagnostic.is_error]
        code = errors[0].code
        message = str(CompileError(errors)).removeprefix(f"error[{code}]: ")
        return cls(code, message, note="Slang compilation error: found when the call was compiled")


class NameNotFound(AttributeError, ValueError):
    """A module or struct has nothing of that name."""

    def __init__(self, message: str, note: str | None = None) -> None:
        self.code = "E1012"
        super().__init__(describe(self.code, message, (), note))


def endless() -> CallError:
    """The error of an argument without end: a cycle, or too deep nesting."""
    note = "lists, dicts and objects with get_this() must end in numbers, arrays or tensors"
    return CallError("E1001", "an argument contains itself, or is nested too deeply", (), note)


def ending(walk: Callable[P, T]) -> Callable[P, T]:
    """A walk through lists, dicts and objects: CallError where they have no end."""

    @wraps(walk)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return walk(*args, **kwargs)
        except RecursionError:
            raise endless() from None

    return guarded


def describe(code: str, message: str, details: Iterable[str] = (), note: str | None = None) -> str:
    assert code in CODES, f"diagnostic code {code} has no row in CODES"
    lines = [f"error[{code}]: {message}"]
    lines += [f"  {line}" for detail in details for line in detail.splitlines()]
    return "\n".join([*lines, f"note: {note}"] if note else lines)
