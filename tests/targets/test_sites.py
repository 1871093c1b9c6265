"""Places that report are numbered once, for all targets."""

import pytest

from slangrad.base.options import Options
from slangrad.base.source import SourceFile
from slangrad.check.modules import CheckedProgram
from slangrad.ir.ops.core import Op, walk
from slangrad.pipeline import compile_kernel

TEXT = """
float at(float* values, uint i, uint count)
{
    if (i >= count)
        printf("no %d\\n", i);
    float local[3] = { 1, 2, 3 };
    return values[i] + local[i];
}

[shader("compute")] [numthreads(32, 1, 1)]
void main(uint3 id : SV_DispatchThreadID, uniform uint count, uniform float* x, uniform float* y)
{
    y[id.x] = at(x, id.x, count) + at(x, id.x + 1, count);
    printf("%f\\n", y[id.x]);
}
"""
PLACES = {("text:5:9", "no %d\n"), ("text:7:24", ""), ("text:14:5", "%f\n")}


@pytest.mark.parametrize("calls", ["keep", "inline"])
@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_targets_have_one_table_of_sites(target: str, calls: str) -> None:
    options = Options(calls=calls, lanes=4)
    made = compile_kernel(CheckedProgram(options), SourceFile("text", TEXT), "main", options, target)
    assert made.kernel is not None
    found = [(site.location, site.text) for site in made.kernel.sites]
    assert len(found) == len(set(found)) and set(found) >= PLACES, found


def test_copies_for_whole_and_last_waves_have_the_numbers_of_the_seam() -> None:
    options = Options(lanes=4)
    made = compile_kernel(CheckedProgram(options), SourceFile("text", TEXT), "main", options, "cpu")
    reports = [
        op for f in made.functions["lanes"] for op in walk(f.region) if op.name in ("in_bounds", "print")
    ]
    assert made.kernel is not None

    def text(op: Op) -> object:
        return op.attributes.get("format", op.attributes.get("text", ""))

    assert {(op.attributes["site"], text(op)) for op in reports} == {
        (number, site.text) for number, site in enumerate(made.kernel.sites)
    }
    assert len(reports) > len(made.kernel.sites)
