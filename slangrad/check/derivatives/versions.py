"""The versions of variables at each point of a function: which stores a load sees.

In: loads, stores, branches and loops, in the order in which a program runs them.   Out: edges between versions.

    y = x; if (c) y = 2; f(y)       into = { y1: {x}, y2: {}, y3: {y1, y2} }, and f sees y3

A variable before its first store is its own version. A loop has a version for each variable that its body uses, made
of the version before the loop and of those at the end of a step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

# A declaration of a variable, `this`, or a Version.
Variable = object
Edges = dict[object, set[object]]


@dataclass(slots=True, eq=False, repr=False)
class Version:
    """The value of a variable from one store, or one meeting of paths, to the next."""

    variable: Variable


@dataclass(slots=True, eq=False, repr=False)
class Point:
    """A point of a function: the variables that changed since the start of the loop around it."""

    loop: LoopStart | None = None
    versions: dict[Variable, object] = field(default_factory=dict)
    is_reached: bool = True

    def read(self, variable: Variable) -> object:
        version = self.versions.get(variable)
        if version is None:
            version = variable if self.loop is None else self.loop.read(variable)
        return version

    def copy(self) -> Point:
        """For another path from here."""
        return Point(self.loop, {**self.versions}, self.is_reached)

    def changed(self, since: LoopStart | None) -> set[Variable]:
        """The variables that may have another version than at the start of a loop around this point; None: than at
        the start of the function."""
        variables = set(self.versions)
        loop = self.loop
        while loop is not None and loop is not since:
            variables |= loop.merged.keys() | loop.before.versions.keys()
            loop = loop.before.loop
        return variables


@dataclass(slots=True, eq=False, repr=False)
class LoopStart:
    """The start of each step of a loop. A variable that no step stores has the version `before` the loop."""

    before: Point
    into: Edges
    merged: dict[Variable, Version] = field(default_factory=dict)
    is_closed: bool = False

    def read(self, variable: Variable) -> object:
        version = self.merged.get(variable)
        if version is not None:
            return version
        if self.is_closed:
            return self.before.read(variable)
        version = self.merged[variable] = Version(variable)
        self.into[version] = {self.before.read(variable)}
        return version

    def close(self, ends: Iterable[Point]) -> None:
        """All of the loop was seen. `ends`: the points from which another step starts."""
        ends = [end for end in ends if end.is_reached]
        for variable in self.merged.keys() | {name for end in ends for name in end.changed(self)}:
            version = self.read(variable)
            self.into[version].update(end.read(variable) for end in ends)
        self.is_closed = True


def meet(points: list[Point], loop: LoopStart | None, into: Edges) -> Point:
    """The point in a loop, or in the function, where several paths meet. Code that no path reaches is followed from the
    first point."""
    reached = [point for point in points if point.is_reached] or points[:1]
    versions: dict[Variable, object] = {}
    for variable in {name for point in reached for name in point.changed(loop)}:
        candidates = {point.read(variable) for point in reached}
        if len(candidates) > 1:
            version = Version(variable)
            into[version] = candidates
            versions[variable] = version
        else:
            versions[variable] = candidates.pop()
    return Point(loop, versions, any(point.is_reached for point in points))
