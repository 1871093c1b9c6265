"""Does a derivative get lost on its way through a function?

In: the checked body of a [Differentiable] function.   Out: an error for each call of a function without a
derivative, through which one would have to pass.

A variable is active when its value depends on a differentiable parameter; it is wanted when a result depends on it.
A call is refused when an argument is active and its result is wanted; `no_diff` says that this is meant.
"""

from typing import Any

from slangrad.check.world import World


def check_activity(world: World, declaration: Any) -> None:
    """To be written."""
