"""Roles: the use of a value in a call, by the mode of the call and the direction of the parameter.

primal, in      ->   read                        bwds, in    ->   read, and its gradient is added to
primal, out     ->   written                     bwds, out   ->   its cotangent is read
"""

from __future__ import annotations

from dataclasses import dataclass

PRIMAL, BACKWARD, TANGENT = "primal", "bwds", "fwds"
HIGHER = "hvp"  # derivatives of `bwds` in a direction
REVERSE = (BACKWARD, HIGHER)  # modes in which derivatives come in at results and go out at inputs


@dataclass(slots=True, frozen=True)
class Role:
    """The use of a value in a call: `takes` and `gives` are about its derivative.

    `takes`: a cotangent (bwds) or tangent (fwds) is read from `grad_in`; `gives`: "add" to or "store" in
    `grad_out`. In `hvp` inputs take tangents, outputs cotangents.
    """

    reads: bool = False
    writes: bool = False
    takes: bool = False
    gives: str = ""

    @property
    def differentiates(self) -> bool:
        return self.takes or bool(self.gives)

    def without_derivative(self) -> Role:
        return Role(self.reads, self.writes)


# fmt: off
ROLES: dict[tuple[str, str], Role] = {
    (PRIMAL,   "in"):    Role(reads=True),
    (PRIMAL,   "out"):   Role(writes=True),
    (PRIMAL,   "inout"): Role(reads=True, writes=True),
    (BACKWARD, "in"):    Role(reads=True, gives="add"),
    (BACKWARD, "out"):   Role(takes=True),
    (BACKWARD, "inout"): Role(reads=True, takes=True, gives="add"),
    (TANGENT,  "in"):    Role(reads=True, takes=True),
    (TANGENT,  "out"):   Role(writes=True, gives="store"),
    (TANGENT,  "inout"): Role(reads=True, writes=True, takes=True, gives="store"),
    (HIGHER,   "in"):    Role(reads=True, takes=True, gives="add"),
    (HIGHER,   "out"):   Role(takes=True),
    (HIGHER,   "inout"): Role(reads=True, takes=True, gives="add"),
}
# fmt: on

_DIRECTIONS = {"in": "in", "constref": "in", "out": "out", "inout": "inout", "ref": "inout"}


def role_of(mode: str, direction: str, differentiable: bool) -> Role:
    """The role of a parameter; in `bwds` only values that can carry a derivative are written."""
    role = ROLES[mode, _DIRECTIONS[direction]]
    if differentiable:
        return role
    return Role(role.reads, role.writes and mode not in REVERSE)
