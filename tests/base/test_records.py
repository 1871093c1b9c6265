"""Records: what they share with dataclasses, and that they are what is said of them."""

from dataclasses import field
from weakref import ref

import pytest

from slangrad.base.records import WeaklyReferenced, default_of, fields_of, record


@record
class Point(WeaklyReferenced):
    """A place."""

    x: int
    y: int = 2
    seen: list[int] = field(default_factory=list, init=False)
    marks: dict[str, int] = field(default_factory=dict)
    level: int = field(default=7, init=False)

    @property
    def sum(self) -> int:
        return self.x + self.y


@record
class Named(Point):
    y: int = 3
    name: str = "n"

    def __repr__(self) -> str:
        return f"<{self.name}>"


def test_fields_are_parameters_and_have_defaults() -> None:
    point = Point(1)
    assert (point.x, point.y, point.seen, point.marks, point.level) == (1, 2, [], {}, 7)
    assert Point(1, y=5, marks={"a": 1}).marks == {"a": 1} and point.sum == 3
    assert Point(1).seen is not Point(1).seen and Point(1).marks is not Point(1).marks
    for wrong in ((), (1, 2, {}, 3), (1, 2, {}, 3, 4)):
        with pytest.raises(TypeError):
            Point(*wrong)


def test_a_record_has_the_fields_of_its_base() -> None:
    named = Named(1, marks={}, name="a")
    assert (named.x, named.y, named.level, named.name) == (1, 3, 7, "a") and isinstance(named, Point)
    assert list(fields_of(Named)) == ["x", "y", "seen", "marks", "level", "name"]
    assert [default_of(fields_of(Named)[each]) for each in ("y", "seen", "level")] == [3, [], 7]


def test_fields_are_in_slots_and_objects_compared_by_identity() -> None:
    assert Point(1) != Point(1) and len({Point(1), Point(1)}) == 2
    for each in (Point(1), Named(1)):
        assert not hasattr(each, "__dict__") and ref(each)() is each
        with pytest.raises(AttributeError):
            each.other = 1  # type: ignore[attr-defined]


def test_a_class_keeps_its_names() -> None:
    assert (Point.__name__, Point.__doc__, Point.__module__) == ("Point", "A place.", __name__)
    assert Point.__qualname__ == "Point" and repr(Named(1)) == "<n>"
