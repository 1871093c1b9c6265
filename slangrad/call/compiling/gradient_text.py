"""The gradient of a function as Slang text: the call of `bwd_diff(f)` and the statements around it.

    var x_pair = diffPair(x);            pair("x_pair", "x")  ->  "x_pair.d", the derivative afterwards
    bwd_diff(f)(x_pair, n, cotangent);

Kernels make the call in their body. Derivatives of gradients make it in a function that is differentiated itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class GradientCall:
    """A call of `bwd_diff(f)`. `say` writes a statement that stands before it."""

    say: Callable[[str], None]
    arguments: list[str] = field(default_factory=list)

    def pair(self, name: str, value: str) -> str:
        """An argument with a derivative. `value`: the primal, and its incoming derivative if it has one."""
        self.say(f"var {name} = diffPair({value});")
        self.arguments.append(name)
        return f"{name}.d"

    def text(self, callee: str) -> str:
        return f"bwd_diff({callee})({', '.join(self.arguments)});"


def differentiable_function(
    name: str, parameters: Iterable[str], body: Iterable[str], generics: Sequence[str] = ()
) -> list[str]:
    """The lines of a function that returns nothing and has derivatives."""
    listed = f"<{', '.join(generics)}>" if generics else ""
    header = f"void {name}{listed}({', '.join(parameters)})"
    return ["[Differentiable]", header, "{", *(f"    {line}" for line in body), "}", ""]
