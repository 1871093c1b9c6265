"""Provenance of pointers, and the accesses that the library guarantees.

    %data = get %buffer {index=0}        a field that holds pointers of the library: the table `trusted` of the program
    %q = offset %data, %i                comes from %data
    %x = load %q {trusted=true}          an access of the library, behind its check of bounds

An access is guaranteed if both it and the pointer are the library's. A pointer that the program passes to the
library is the program's, also where the library follows it.
"""

from __future__ import annotations

from slangrad.ir.analyses.addresses import Roots, is_null, root_of
from slangrad.ir.data.types import Struct
from slangrad.ir.ops.control import carried
from slangrad.ir.ops.core import Function, Op, Program, Value, walk


class Origins(Roots):
    """The root of a pointer is its value before members and elements were taken, and before a loop moved it on."""

    def __init__(self, program: Program, function: Function) -> None:
        super().__init__(function.region.makers.get)
        self._trusted_fields = program.trusted
        self._trusted: dict[Value, bool] = {}
        self._starts: dict[Value, Value] = {}  # of what a loop carries and only takes steps from
        for op in walk(function.region):
            for loop_value in carried(op):
                moved = root_of(loop_value.yielded, self.made_by)
                self._starts.update({p: loop_value.start for p in loop_value.inside if p is moved})

    def _before(self, address: Value) -> Value | None:
        return super()._before(address) or self._starts.get(address)

    # --- guarantees of the library

    def is_vouched_for(self, access: Op) -> bool:
        """Whether the pointer of an access needs no check."""
        return bool(access.attributes.get("trusted")) and self.is_trusted(self.root(access.operands[0]))

    def is_trusted(self, root: Value) -> bool:
        """Whether a root is a pointer of the library, or the address of a buffer's element."""
        if root not in self._trusted:
            op = self.made_by(root)
            self._trusted[root] = op is not None and (
                (op.name == "get" and self._names_trusted(op, op.operands[0].type)) or self.is_element(root)
            )
        return self._trusted[root]

    def is_element(self, root: Value) -> bool:
        """Whether it is the address of a buffer's element, or null outside of the buffer."""
        op = self.made_by(root)
        if op is None or op.name != "if":
            return False
        arms = [self.root(region.yields[op.results.index(root)]) for region in op.regions]
        non_null = [arm for arm in arms if not is_null(arm, self.made_by)]
        return len(non_null) == 1 and self.is_trusted(non_null[0])

    def _names_trusted(self, op: Op, whole: object) -> bool:
        fields = self._trusted_fields.get(whole, ()) if isinstance(whole, Struct) else ()
        return op.attributes["index"] in fields
