"""Derivatives at edges: the table of docs/gradients.md, and masks before functions with infinite slopes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import slangrad as spy
from tests.backends import COMPILED
from tests.gradients.edges import TYPES, Edge, edges, functions, program, rows

ULPS = 4


@pytest.fixture(scope="module", params=COMPILED)
def device(request: pytest.FixtureRequest) -> spy.Device:
    if request.param == "cuda":
        return request.getfixturevalue("gpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLANGRAD_OPTIMIZE", "0")
        patch.setenv("SLANGRAD_LANES", "4")
        return spy.create_device()


def is_near(found: float, wanted: float, kind: type[np.floating]) -> bool:
    """A few units in the last place; less than the smallest normal number may be zero."""
    with np.errstate(over="ignore"):
        rounded = float(kind(wanted))
    if math.isnan(rounded) or math.isinf(rounded):
        return found == rounded or (math.isnan(found) and math.isnan(rounded))
    limits = np.finfo(kind)
    size = max(abs(wanted), float(limits.smallest_normal))
    return abs(found - rounded) <= (ULPS * float(limits.eps) * size if rounded else 0.0)


def test_every_row_of_the_table_has_examples() -> None:
    found = {kind: edges(kind) for kind in TYPES}
    assert len(rows()) > 20 and all(" = " in row for row in rows())
    assert {len(each) for each in found.values()} == {sum(row.count(" = ") for row in rows())}


@pytest.mark.parametrize("kind", TYPES)
def test_the_table(device: spy.Device, kind: str) -> None:
    """Each example in reverse mode, and in forward mode with tangents that the compiler does not know."""
    cases, numbers, t = edges(kind), list(functions(kind)), TYPES[kind]
    operands = np.array([(*edge.operands, 0.0, 0.0)[:3] for edge in cases], t)
    which = np.array([numbers.index(edge.function) for edge in cases], np.int32)
    shapes = ((len(cases),), (len(cases), 3), (len(cases), 3))
    value, reverse, forward = (spy.Tensor.from_numpy(device, np.zeros(shape, t)) for shape in shapes)
    module = spy.Module.load_from_source(device, f"edges_{kind}", program(kind))
    module.run(which, *operands.T.copy(), t(1), t(0), value, reverse, forward)
    wrong = []
    for edge, y, *slopes in zip(cases, value.to_numpy(), reverse.to_numpy(), forward.to_numpy(), strict=True):
        wrong += [f"{edge}: {mode} {found}" for mode, found in differing(edge, float(y), slopes, t)]
    assert not wrong, "\n".join(wrong)


def differing(
    edge: Edge, y: float, slopes: list[np.ndarray], t: type[np.floating]
) -> list[tuple[str, object]]:
    """What is not as the table says."""
    found: list[tuple[str, object]] = []
    if edge.value is not None and not is_near(y, edge.value, t):
        found.append(("value", y))
    for mode, row in zip(("reverse", "forward"), slopes, strict=True):
        wanted = edge.slopes or ()
        if not all(is_near(float(a), b, t) for a, b in zip(row, wanted)):
            found.append((mode, row))
    return found
