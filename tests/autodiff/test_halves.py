"""Functions that stay functions hand residuals from their forward half to their reverse half, or are run again."""

import pytest

from slangrad.autodiff.requests import Differentiated, differentiate
from slangrad.ir.ops.core import walk
from slangrad.ir.oracle.interpret import Machine, Recorded
from slangrad.ir.oracle.memory import Datum
from slangrad.opt.calls.inline import inline_into
from tests.autodiff.calculus import check, parse, request

KEPT = """
struct "Pair" { a: f64, n: i32, b: [3 x f64] }

func @wave(%x: f64, %y: f64) -> (f64) {kept=true} {
  %a = mul %x, %y
  %s = sin %a
  %e = exp %s
  %t = tanh %e
  %r = mul %t, %s
  yield %r
}
func @branch(%x: f64, %n: i32, out %r: f64) -> (f64) {kept=true} {
  %one = const 1 : i32
  %more = less %one, %n
  %v, %q = if %more : f64, f64 {
    %w = call @wave %x, %x : f64
    %c = cos %w
    %p = mul %c, %w
    yield %p, %c
  } {
    %e = exp %x
    %s = sin %e
    yield %s, %e
  }
  %m = mul %v, %q
  yield %m, %v
}
func @power(%x: f64, %n: i32) -> (f64) {kept=true} {
  %four = const 4 : i32
  %r = for %four, %x : f64 (%i: i32, %s: f64) {
    %w, %v = call @branch %s, %i : f64, f64
    %t = sin %w
    %u = mul %t, %s
    yield %u
  }
  %q = mul %r, %r
  yield %q
}
func @endless(%x: f64, %n: i32) -> (f64) {kept=true} {
  %r = for %n, %x : f64 (%i: i32, %s: f64) {
    %w = call @wave %s, %x : f64
    %u = sin %w
    yield %u
  }
  yield %r
}
func @packed(%p: struct "Pair", %i: i32) -> (struct "Pair") {kept=true} {
  %a = get %p {index=0}
  %b = get %p {index=2}
  %e = index %b, %i
  %w = call @wave %a, %e : f64
  %v = call @wave %w, %w : f64
  %m = mul %v, %w
  %c = set_index %b, %i, %m
  %q = set %p, %c {index=2}
  %t = set %q, %v {index=0}
  yield %t
}
"""
CALLERS = {
    "in a row": """
        %a = call @wave %x, %x : f64
        %b, %c = call @branch %a, %n : f64, f64
        %d = call @power %c, %n : f64
        %r = mul %d, %b
    """,
    "in a loop and a branch": """
        %r = for %n, %x : f64 (%i: i32, %s: f64) {
          %odd = less %i, %n
          %v = if %odd : f64 {
            %b, %c = call @branch %s, %i : f64, f64
            %t = call @wave %b, %c : f64
            yield %t
          } {
            %p = call @power %s, %n : f64
            yield %p
          }
          %u = mul %v, %x
          yield %u
        }
    """,
    "loops without a bound": """
        %a = call @endless %x, %n : f64
        %b = call @power %a, %n : f64
        %r = mul %a, %b
    """,
}


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("residuals", ["cut", "store", "recompute"])
def test_derivatives_to_the_third(caller: str, residuals: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = lambda p, inline: differentiate(p, inline, 0, residuals)
    monkeypatch.setattr("tests.autodiff.calculus.differentiate", made)
    program = parse(f"{KEPT}\nfunc @f(%x: f64, %n: i32) -> (f64) {{ {CALLERS[caller]}\n yield %r }}")
    check(program, "f", (0.4, 3), order=3 if residuals == "cut" else 2)


# --- how often


def chain(length: int) -> str:
    """Functions that each call the one before twice."""
    text = """
    func @f0(%x: f64) -> (f64) {kept=true} { %s = sin %x  %r = mul %s, %x  yield %r }
    """
    for i in range(1, length):
        text += f"""
        func @f{i}(%x: f64) -> (f64) {{kept=true}} {{
          %p = const 0.9 : f64
          %q = const 1.1 : f64
          %y = mul %x, %p
          %z = mul %x, %q
          %a = call @f{i - 1} %y : f64
          %b = call @f{i - 1} %z : f64
          %r = mul %a, %b
          yield %r
        }}
        """
    return text


class Counting(Machine):
    """Counts how often @f0 is run, in whatever function."""

    runs = 0

    def call(self, name: str, inputs: tuple[Datum, ...]) -> tuple[Datum, ...]:
        self.runs += name.startswith("f0") and not name.endswith(".reverse")
        return super().call(name, inputs)


def runs_of(length: int) -> int:
    """In the gradient of a chain."""
    asking, entry = request(parse(chain(length)), f"f{length - 1}", "vjp")
    machine = Counting(differentiate(asking, inline_into).program, 0, Recorded())
    machine.call(entry, (0.3, 1.0))
    return machine.runs


@pytest.mark.parametrize("length", [4, 8, 12])
def test_a_chain_of_calls_is_run_a_few_times_whatever_its_length(length: int) -> None:
    assert runs_of(length) <= 4 * 2 ** (length - 1)


# --- which of the two


def gradient(text: str, residuals: str = "cut") -> Differentiated:
    asking, _ = request(parse(text), "f", "vjp")
    return differentiate(asking, inline_into, 0, residuals)


def called(made: Differentiated, name: str = "f.vjp") -> set[str]:
    ops = walk(made.program.functions[name].region)
    return {op.attributes["callee"] for op in ops if op.name == "call"}


LOOP = """
func @f(%x: f64, %n: i32) -> (f64) {ATTRIBUTES} {
  %r = for %n, %x : f64 (%i: i32, %s: f64) {
    %a = call @wave %s, %x : f64
    yield %a
  }
  yield %r
}
"""
HALVES, AGAIN = {"wave.111.forward", "wave.111.reverse"}, {"wave", "wave.111.vjp"}


@pytest.mark.parametrize(
    ("attributes", "residuals", "wanted"),
    [("", "cut", HALVES), ("", "store", HALVES), ('prefer="recompute"', "cut", AGAIN)],
)
def test_a_preference_decides(attributes: str, residuals: str, wanted: set[str]) -> None:
    text = KEPT + LOOP.replace("{ATTRIBUTES}", f"{{{attributes}}}" if attributes else "")
    assert called(gradient(text, residuals)) == wanted


def test_a_function_that_keeps_nothing_is_not_run_again() -> None:
    text = """
    func @cube(%x: f64) -> (f64) {kept=true} { %a = mul %x, %x  %r = mul %a, %x  yield %r }
    func @f(%x: f64) -> (f64) { %a = call @cube %x : f64  %b = call @cube %a : f64  yield %b }
    """
    assert called(gradient(text)) == {"cube", "cube.11.reverse"}


def test_a_call_that_is_of_no_other_use_is_run_once() -> None:
    """The forward half would have to compute what the function gives."""
    text = f"""{KEPT}
    func @f(%x: f64, %y: f64) -> (f64) {{ %a = call @wave %x, %y : f64  %r = add %a, %y  yield %r }}
    """
    assert called(gradient(text)) == {"wave", "wave.111.vjp"}  # the first is dead


def test_what_is_too_much_to_hand_over_is_computed_again() -> None:
    text = """
    func @long(%x: f64) -> (f64) {kept=true} {
      %n = const 300 : i32
      %r = for %n, %x : f64 (%i: i32, %s: f64) { %u = sin %s  yield %u }
      yield %r
    }
    func @f(%x: f64) -> (f64) { %a = call @long %x : f64  %b = call @long %a : f64  %r = mul %a, %b  yield %r }
    """
    assert called(gradient(text)) == {"long", "long.11.vjp"}
    assert called(gradient(text, "store")) == {"long.11.forward", "long.11.reverse"}


def test_reports_tell_what_a_call_hands_over() -> None:
    made = gradient(KEPT + LOOP.replace("{ATTRIBUTES}", ""))
    wave, loop = made.reports["wave.111.reverse"], made.reports["f.vjp"]
    assert str(wave).splitlines()[0] == "@wave.111.reverse: 24 bytes a call"
    (residuals,) = [each for each in loop.stored if each.name == "residuals"]
    assert residuals.bytes == 24
    assert residuals.reason.startswith("to compute it again would cost ")
