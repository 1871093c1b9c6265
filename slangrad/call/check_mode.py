"""Check mode: what it compares, and the session that compiles for it.

    with device.check_mode():           SLANGRAD_CHECK=1
        module.loss.bwds(x, w)          compared with finite differences; stops at the first NaN or infinity

Calls in check mode have plans and kernels of their own, so those of others cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from slangrad.base.options import Options


@dataclass(slots=True, frozen=True)
class CheckMode:
    """`gradients`: compare each `bwds`, with these tolerances (`rtol` None: as the type of the numbers has it)."""

    gradients: bool = True
    rtol: float | None = None
    atol: float = 0.0


class CheckedSession:
    """A session as kernels of check mode see it: the same program, compiled with checks."""

    __slots__ = ("_made", "_make_compiler", "kernels", "lock", "settings", "target")

    def __init__(self, session: Any, make_compiler: Callable[[Options], Any]) -> None:
        self.lock, self.target = session.lock, session.target
        self._make_compiler = make_compiler
        self._made: Any = None
        self.kernels: dict[str, Any] = {}
        self.settings: Options = replace(session.settings, check=True)

    @property
    def compiler(self) -> Any:
        if self._made is None:
            with self.lock:
                self._made = self._made or self._make_compiler(self.settings)
        return self._made
