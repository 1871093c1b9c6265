"""Where pointers come from, and which accesses the library vouches for.

    %data = get %buffer {index=0}        a field that holds pointers of the library: the table `trusted` of the program
    %q = offset %data, %i                comes from %data
    %x = load %q {trusted=true}          an access of the library, behind its check of bounds

An access is vouched for where both hold: it is the library's, and so is the pointer. A pointer that the program gave to
the library is the program's, also where the library follows it.
"""

from __future__ import annotations

from slangrad.ir.control import carried
from slangrad.ir.core import Function, Op, Program, Value, walk
from slangrad.ir.types import Pointer, Struct

MOVES = frozenset({"offset", "member", "bitcast"})
ACCESSES = frozenset({"load", "store", "atomic"})


class Origins:
    """The root of a pointer is what it was before members and elements were taken, also before a loop moved it on."""

    def __init__(self, program: Program, function: Function) -> None:
        self._trusted_fields = program.trusted
        self.made_by = function.region.makers
        self._carried: dict[
            Value, tuple[Value, Value]
        ] = {}  # what it begins with, what an iteration makes of it
        for op in walk(function.region):
            for each in carried(op):
                self._carried.update(dict.fromkeys(each.inside, (each.start, each.yielded)))
        self._found: dict[Value, Value] = {}
        self._trusted: dict[Value, bool] = {}

    def of(self, pointer: Value) -> Value:
        """The root."""
        if pointer not in self._found:
            self._found[pointer] = pointer  # a chain that comes back to itself ends here
            self._found[pointer] = self._find(pointer)
        return self._found[pointer]

    def _find(self, pointer: Value) -> Value:
        op = self.made_by.get(pointer)
        if op is not None and op.name in MOVES and isinstance(op.operands[0].type, Pointer):
            return self.of(op.operands[0])
        if pointer in self._carried:
            start, made = self._carried[pointer]
            return self.of(start) if self._moved(made) is pointer else pointer
        return pointer

    def _moved(self, pointer: Value) -> Value:
        op = self.made_by.get(pointer)
        while op is not None and op.name in MOVES and isinstance(op.operands[0].type, Pointer):
            pointer = op.operands[0]
            op = self.made_by.get(pointer)
        return pointer

    # --- what the library vouches for

    def is_vouched_for(self, access: Op) -> bool:
        """Whether nothing is to be asked about the pointer of an access."""
        return bool(access.attributes.get("trusted")) and self.is_trusted(self.of(access.operands[0]))

    def is_trusted(self, root: Value) -> bool:
        """Whether a root is a pointer of the library, or the address of a buffer's element."""
        if root not in self._trusted:
            op = self.made_by.get(root)
            self._trusted[root] = op is not None and (
                (op.name == "get" and self._names_trusted(op, op.operands[0].type)) or self.is_element(root)
            )
        return self._trusted[root]

    def is_element(self, root: Value) -> bool:
        """Whether it is the address of a buffer's element, and null where there is none."""
        op = self.made_by.get(root)
        if op is None or op.name != "if":
            return False
        arms = [self.of(region.yields[op.results.index(root)]) for region in op.regions]
        there = [arm for arm in arms if not self._is_null(arm)]
        return len(there) == 1 and self.is_trusted(there[0])

    def _names_trusted(self, op: Op, whole: object) -> bool:
        fields = self._trusted_fields.get(whole, ()) if isinstance(whole, Struct) else ()
        return op.attributes["index"] in fields

    def _is_null(self, root: Value) -> bool:
        op = self.made_by.get(root)
        return op is not None and op.name == "zero"
