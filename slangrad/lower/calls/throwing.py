"""`try`, and the variables of a handler: whether there is an error, and which.

int f(int n) throws E        func @f(%n) -> (i32, bool, E)

    y = g(try f(x)) + 1;     %r, %threw, %error = call @f %x     if %threw { } else { y = g(%r) + 1 }

So a call that throws is an exit like `break`, but from within an expression: the rest of the statement becomes an
arm of an `if` (`Frame.leave_where`).
"""

from __future__ import annotations

from slangrad.check.model import checked
from slangrad.ir.data.types import BOOL, struct
from slangrad.ir.ops.core import Value
from slangrad.lower.calls.calls import lower_call
from slangrad.lower.model.exits import Handler, error_keys, flags
from slangrad.lower.model.frame import Frame, Place
from slangrad.lower.places.places import LocalPlace, Temporary
from slangrad.syntax import ast


def places(f: Frame, catch: ast.Catch | None) -> tuple[Place, Place]:
    """The variables of a handler, or with None of the caller; a handler of every error has no variable for the
    error."""
    threw, error = error_keys(f, catch)
    if error not in f.variables:
        return LocalPlace(threw, BOOL), Temporary(f.b.zero(struct("none", ())))
    return LocalPlace(threw, BOOL), LocalPlace(error, f.variables[error].type)


def enter_handler(f: Frame, catch: ast.Catch) -> None:
    handler = Handler(catch)
    f.exits.append(handler)
    f.variables[handler.threw] = f.false()
    if catch.parameter is not None:
        f.variables[handler.error] = f.b.zero(f.type(f.program.info(catch.parameter).type))


def leave_handler(f: Frame) -> tuple[Value, Value | None]:
    """Whether the innermost handler runs, and with which error."""
    handler = f.exits.pop()
    assert isinstance(handler, Handler)
    return f.variables.pop(handler.threw), f.variables.pop(handler.error, None)


def lower_try(f: Frame, form: checked.TriedCall, cut: bool = False) -> Value | None:
    """The value of a call; after a throw the rest of the statement does not run."""
    threw, error = places(f, form.handler)
    value = lower_call(f, form.call.ref, cut, (threw, error))
    f.leave_where(threw.get(f), flags(f))
    return value
