"""Debug locations tell which line of LLVM text made which line of assembly, and change no code."""

import pytest

import slangrad as spy
from slangrad.base.options import Options
from slangrad.llvm.machine import native
from slangrad.llvm.machine.debug_lines import lines_of_listing, with_debug_lines

PROGRAM = """
[Differentiable] float f(float x)
{
    float y = x;
    for (int i = 0; i < 40; i++) { if (y > 2.0) break; y = y * y + exp(x); }
    return y;
}
"""


def compiled(lanes):
    device = spy.create_device(backend="cpu", options=Options(lanes=lanes))
    function = spy.Module.load_from_source(device, "f", PROGRAM).f
    x = spy.Tensor.zeros(device, (4,), "float").with_grads()
    return function.bwds.compile(x=x, _result=spy.Tensor.zeros(device, (4,), "float").with_grads())


@pytest.mark.parametrize("lanes", [1, 8])
def test_the_code_stays_as_it_is(lanes):
    text, target = compiled(lanes).text("llvm"), native.target_of(Options(lanes=lanes))
    with_lines = lines_of_listing(native.assembly(with_debug_lines(text), target))
    plain = native.assembly(text, target).rstrip("\n").split("\n")
    assert [line for line, _ in with_lines] == [line for line in plain if ".file" not in line]


def test_numbers_are_lines_of_the_text():
    text = """\
define dso_local void @entry(ptr noalias %arguments, ptr noalias %launch, i64 %chunk) #0 {
begin:
  %x = load float, ptr %arguments
  %y = fmul float %x, %x
  %z = fdiv float %y, 3.0
  store float %z, ptr %launch
  ret void
}
attributes #0 = { nounwind }
"""
    listing = native.assembly(with_debug_lines(text), native.target_of(Options()))
    lines = {line.split()[0]: number for line, number in lines_of_listing(listing) if number and line}
    assert [lines[name] for name in lines if "mul" in name] == [4]
    assert [lines[name] for name in lines if "div" in name] == [5]
    assert [lines[name] for name in lines if "ret" in name] == [7]
    assert ".loc" not in "".join(line for line, _ in lines_of_listing(listing))
