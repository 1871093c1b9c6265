"""Every stage's lines know which lines of the program they were made from."""

import re

import slangrad as spy

PROGRAM = """\
[Differentiable]
float square(float x)
{
    return x * x;
}

[Differentiable]
float f(float x, float y)
{
    float a = x / y;
    float b = square(a);
    float c = exp2(y);
    return b - c;
}
"""


def lines_from(compiled, stage, line):
    """The lines of a stage that come from a line of the program, without names and numbers of values."""
    found = [
        each.text
        for each in compiled.lines(stage)
        if each.span and line in [place.line for place in each.span.and_callers() if place.source.name == "f"]
    ]
    return [re.sub(r"%[\w.]+", "%", text).strip() for text in found]


def compiled(mode="call"):
    device = spy.create_device(backend="cpu", options=spy.Options(lanes=8, contraction=False))
    function = spy.Module.load_from_source(device, "f", PROGRAM).f
    x, y = (spy.Tensor.zeros(device, (4,), "float") for _ in range(2))
    if mode == "call":
        return function.compile(x=x, y=y)
    result = spy.Tensor.zeros(device, (4,), "float").with_grads()
    return function.bwds.compile(x=x.with_grads(), y=y, _result=result)


def test_a_line_in_each_stage():
    kernel = compiled()
    assert lines_from(kernel, "ast", 10)[0] == "DeclarationStatement"
    assert lines_from(kernel, "lowered", 10) == ["% = div %, %"]
    assert lines_from(kernel, "flat", 10) == ["% = div %, %"]
    assert lines_from(kernel, "lanes", 10) == ["% = div %, %"] * 2
    assert lines_from(kernel, "llvm", 10) == ["% = fdiv <8 x float> %, %"] * 2
    assert any("div" in text for text in lines_from(kernel, "asm", 10))
    assert not any("div" in text for text in lines_from(kernel, "asm", 11))


def test_code_of_a_called_function_comes_from_its_line_and_from_the_call():
    kernel = compiled()
    for line in (4, 11):
        assert lines_from(kernel, "flat", line) == ["% = mul %, %"]
        assert lines_from(kernel, "llvm", line) == ["% = fmul <8 x float> %, %"] * 2
        assert any("mul" in text for text in lines_from(kernel, "asm", line))
    assert "call @square" in lines_from(kernel, "lowered", 11)[0]
    assert lines_from(kernel, "lowered", 4)[0] == "% = mul %, %"


def test_code_of_the_library_comes_from_the_line_that_uses_it():
    kernel = compiled()
    assert lines_from(kernel, "flat", 12) == ["% = exp2 %"]
    assert len(lines_from(kernel, "math", 12)) > 5
    assert len(lines_from(kernel, "asm", 12)) > 5


def test_derivatives_come_from_the_line_of_the_function():
    kernel = compiled("bwds")
    assert lines_from(kernel, "clean", 4) == ["% = mul %, %", "% = add %, %"]
    assert any(text.startswith("% = fdiv") for text in lines_from(kernel, "llvm", 10))


def test_the_kernels_own_lines():
    kernel = compiled()
    assert [line.span.line for line in kernel.lines("kernel")] == list(
        range(1, len(kernel.lines("kernel")) + 1)
    )
    stores = [line for line in kernel.lines("flat") if line.text.strip().startswith("store")]
    places = [place for place in stores[0].span.and_callers() if place.source.name.startswith("kernel")]
    assert "_result.store" in places[-1].source.line_text(places[-1].line)
