"""Random programs with atomic operations through random places, and a model of them in Python.

    program = generate(seed)
    program.text                  structs of numbers, vectors, arrays, Atomics and structs; functions and methods that take
                                  parts of them by inout, ref or [mutating], and do operations or pass smaller parts on
    program.expected(threads)     what is in each place at the end, and whether an index was out of range

Each field has one kind of operation, whose order does not matter. The memory is tensors, a buffer and a pointer; indices
depend on the thread, and may be out of range.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

ELEMENTS = 3  # of each container
CONTAINERS = {"t": "RWTensor<S0, 1>", "any": "IRWTensor<S0, 1>", "b": "RWStructuredBuffer<S0>", "p": "S0*"}
NUMBERS = ("uint", "int", "float", "half", "int64_t", "uint64_t")
WHOLE = ("add", "or", "xor", "max", "min", "and")
OPERATIONS = {"float": ("add", "max", "min"), "half": ("max", "min")}  # exact, however many there are
MODEL: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "max": max,
    "min": min,
    "and": lambda x, y: x & y,
}
START = 21
Path = tuple[str | int, ...]
State = dict[Path, int]


@dataclass
class Kind:
    """A type: a number with its operation, a vector or array of a kind, or a struct of fields."""

    text: str
    number: str = ""
    operation: str = ""
    atomic: bool = False
    of: Kind | None = None
    count: int = 0
    fields: dict[str, Kind] = field(default_factory=dict)

    def leaves(self) -> Iterator[tuple[str, Path, Kind]]:
        if self.number:
            yield "", (), self
        for k in range(self.count):
            assert self.of is not None
            for text, path, leaf in self.of.leaves():
                yield f"[{k}]{text}", (k, *path), leaf
        for name, kind in self.fields.items():
            for text, path, leaf in kind.leaves():
                yield f".{name}{text}", (name, *path), leaf


@dataclass
class Index:
    """A number, or one that depends on the thread."""

    text: str
    of: Callable[[int], int]


@dataclass
class Place:
    text: str
    kind: Kind
    path: tuple[str | Index, ...] = ()
    extents: tuple[int, ...] = ()  # of the indices in the path

    def at(self, i: int) -> tuple[Path, bool]:
        """Where it is for a thread, and whether that is in range."""
        given = [each.of(i) for each in self.path if isinstance(each, Index)]
        inside = all(k < extent for k, extent in zip(given, self.extents, strict=True))
        return tuple(each.of(i) if isinstance(each, Index) else each for each in self.path), inside


Run = Callable[["Machine", Path, bool, int], None]  # at a place that is in range or not, for a thread


@dataclass
class Machine:
    state: State
    outside: bool = False


@dataclass
class Program:
    text: str
    run: Callable[[Machine, int], None]
    places: list[Path]

    def expected(self, threads: int) -> tuple[list[int], bool]:
        machine = Machine(dict.fromkeys(self.places, START))
        for i in range(threads):
            self.run(machine, i)
        return [machine.state[path] for path in self.places], machine.outside


class Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.structs: list[str] = []
        self.functions: list[str] = []
        self.count = 0

    def name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    # --- types

    def number(self) -> Kind:
        number = self.random.choice(NUMBERS)
        operation = self.random.choice(OPERATIONS.get(number, WHOLE))
        atomic = self.random.random() < 0.3
        return Kind(f"Atomic<{number}>" if atomic else number, number, operation, atomic)

    def kind(self, depth: int) -> Kind:
        choice = self.random.randrange(4)
        if choice == 0 and depth > 0:
            return self.struct(depth - 1)
        if choice == 1:
            of, count = self.kind(depth - 1) if depth > 0 else self.number(), self.random.randint(2, 3)
            name = self.name("A")
            self.structs.append(f"typealias {name} = {of.text}[{count}];")
            return Kind(name, of=of, count=count)
        if choice == 2:
            of, count = self.number(), self.random.randint(2, 4)
            of = Kind(of.number, of.number, of.operation)
            return Kind(f"vector<{of.text}, {count}>", of=of, count=count)
        return self.number()

    def struct(self, depth: int) -> Kind:
        name = f"S{len(self.structs)}"
        self.structs.append("")  # taken
        number = len(self.structs) - 1
        fields = {f"f{k}": self.kind(depth) for k in range(self.random.randint(2, 3))}
        members = " ".join(f"{kind.text} {each};" for each, kind in fields.items())
        self.structs[number] = f"struct {name} {{ {members} }}"
        return Kind(name, fields=fields)

    # --- places

    def index(self, extent: int) -> Index:
        if self.random.random() < 0.3:
            k = self.random.randrange(extent)
            return Index(str(k), lambda i: k)
        most = extent + (self.random.random() < 0.08)
        shift = self.random.randrange(5)
        return Index(f"(i + {shift}) % {most}", lambda i: (i + shift) % most)

    def part(self, place: Place) -> Place:
        """A random part of a place, perhaps itself."""
        while not place.kind.number and self.random.random() < 0.8:
            kind = place.kind
            if kind.fields:
                name = self.random.choice(list(kind.fields))
                place = Place(f"{place.text}.{name}", kind.fields[name], (*place.path, name), place.extents)
            else:
                assert kind.of is not None
                index = self.index(kind.count)
                extents = (*place.extents, kind.count)
                place = Place(f"{place.text}[{index.text}]", kind.of, (*place.path, index), extents)
        return place

    # --- what is done

    def operation(self, place: Place) -> tuple[str, Run]:
        kind, shift = place.kind, self.random.randrange(1, 6)
        title = kind.operation.capitalize()
        text = f"{kind.number}(1 + (i + {shift}) % 3)"
        if kind.atomic:
            line = f"{place.text}.{self.random.choice([kind.operation, f'reduce{title}'])}({text});"
        else:
            lines = [f"Interlocked{title}(P, V);", f"__atomic_{kind.operation}(P, V);"]
            lines += [f"{{ {kind.number} old; Interlocked{title}(P, V, old); }}"]
            line = self.random.choice(lines).replace("P", place.text).replace("V", text)

        def run(m: Machine, at: Path, inside: bool, i: int) -> None:
            if inside:
                m.state[at] = MODEL[kind.operation](m.state[at], 1 + (i + shift) % 3)

        return line, run

    def call(self, place: Place, depth: int) -> tuple[str, Run]:
        """Of a new function on the place."""
        name, way = self.name("g"), self.random.choice(("inout", "ref", "__ref", "generic", "method"))
        struct = way == "method" and bool(place.kind.fields)
        own = Place("this" if struct else "x", place.kind)
        lines, run = self.body(own, depth)
        body = " ".join(lines)
        if struct:
            self.functions.append(
                f"extension {place.kind.text} {{ [mutating] void {name}(int i) {{ {body} }} }}"
            )
            return f"{place.text}.{name}(i);", run
        word = "inout" if way in ("method", "generic") else way
        generic, given = ("<let N : int>", f"<{self.count}>") if way == "generic" else ("", "")
        header = f"void {name}{generic}(int i, {word} {place.kind.text} x)"
        self.functions.append(f"{header} {{ {body} }}")
        return f"{name}{given}(i, {place.text});", run

    def body(self, whole: Place, depth: int) -> tuple[list[str], Run]:
        """Statements on parts of a place."""
        done = [self.statement(whole, depth) for _ in range(self.random.randint(1, 2))]

        def run(m: Machine, at: Path, inside: bool, i: int) -> None:
            for _, each in done:
                each(m, at, inside, i)

        return [line for line, _ in done], run

    def statement(self, whole: Place, depth: int) -> tuple[str, Run]:
        choice = self.random.randrange(6)
        if choice == 0:
            line, run = self.statement(whole, depth)
            divisor = self.random.randint(2, 3)
            return (
                f"if (i % {divisor} == 0) {{ {line} }}",
                lambda m, at, inside, i: run(m, at, inside, i) if i % divisor == 0 else None,
            )
        if choice == 1:
            line, run = self.statement(whole, depth)
            loop = f"for (int k = 0; k < i % 3; k++) {{ {line} }}"
            return loop, lambda m, at, inside, i: [run(m, at, inside, i) for _ in range(i % 3)] and None
        part = self.part(whole)
        if part.kind.number and (depth == 0 or self.random.random() < 0.5):
            line, run = self.operation(part)
        elif depth > 0:
            line, run = self.call(part, depth - 1)
        else:
            return self.statement(whole, depth)
        return line, _at(part, run)

    def program(self) -> Program:
        whole = self.struct(2)
        done = []
        for _ in range(self.random.randint(3, 6)):
            name = self.random.choice(list(CONTAINERS))
            index = self.index(ELEMENTS)
            if name == "p":  # pointers have no extent
                k = self.random.randrange(ELEMENTS)
                index = Index(str(k), lambda i, k=k: k)
            element = Place(f"{name}[{index.text}]", whole, (name, index), (ELEMENTS,))
            done.append(self.statement(element, 3))
        leaves = [
            (f"{name}[e]{text}", (name, path), leaf)
            for name in CONTAINERS
            for text, path, leaf in whole.leaves()
        ]
        places: list[Path] = [(name, e, *path) for _, (name, path), _ in leaves for e in range(ELEMENTS)]

        def run(m: Machine, i: int) -> None:
            for _, each in done:
                each(m, (), True, i)

        return Program(self._text([line for line, _ in done], leaves), run, places)

    def _text(self, lines: list[str], leaves: list[tuple[str, Any, Kind]]) -> str:
        given = ", ".join(f"{kind} {name}" for name, kind in CONTAINERS.items())
        starts = [f"{text} = {leaf.number}({START});" for text, _, leaf in leaves]
        ends = [
            f"found[{ELEMENTS * k} + e] = double({text}{'.load()' if leaf.atomic else ''});"
            for k, (text, _, leaf) in enumerate(leaves)
        ]
        each = f"for (int e = 0; e < {ELEMENTS}; e++) {{"
        functions = [
            ("start", "", [each, *starts, "}"]),
            ("run", "", lines),
            ("finish", ", RWTensor<double, 1> found", [each, *ends, "}"]),
        ]
        made = [
            f"void {name}(int i, {given}{more})\n{{\n    " + "\n    ".join(body) + "\n}"
            for name, more, body in functions
        ]
        return "\n".join(['import "slangpy";', *reversed(self.structs), *self.functions, *made, ""])


def _at(part: Place, run: Run) -> Run:
    """What is run on a part of a place."""

    def of_part(m: Machine, at: Path, inside: bool, i: int) -> None:
        path, within = part.at(i)
        m.outside |= not within
        run(m, (*at, *path), inside and within, i)

    return of_part


def generate(seed: int) -> Program:
    return Writer(seed).program()
