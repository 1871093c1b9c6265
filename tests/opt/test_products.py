"""Products with derivatives: where a zero that means "nothing arrives here" must win over an infinity."""

import pytest

from slangrad.opt.simplify.products import settle_products
from tests.ir.golden import assert_becomes

TEXT = """
func @f(%px: ptr<f32, global>, %pd: ptr<f32, global>, %c: bool) -> (f32) {{
  %zero = const 0.0 : f32
  %one = const 1.0 : f32
  %x = load %px : f32
  %d = load %pd : f32
  {partial}
  {derivative}
  {product}
  yield %s
}}"""
PLAIN = "%s = mul %p, %m"
GUARDED = """
  %q = mul %p, %m
  %z = equal %m, %zero
  %s = select %z, %zero, %q"""
ONLY = "{masks_only=true}"
MASKED = "%m = if %c : f32 { yield %d } { yield %zero }"
TWICE = "%m = add %d, %d"
IN_RANGE = MASKED  # a load, or zero where it would be out of range: with `masks_only` that is no mask
TAKEN = "%t = add %d, %d  %m = if %c : f32 { yield %t } { yield %zero }"
INVERSE = "%p = div %one, %x"

# fmt: off
CASES = {
    "what is loaded, or a sum of it":       ("%p = add %x, %x",                          MASKED,   "",   PLAIN),
    "an inverse":                           (INVERSE,                                    MASKED,   "",   GUARDED),
    "an inverse of a number above zero":    ("%a = abs %x  %y = add %a, %one  %p = div %one, %y", MASKED, "", PLAIN),
    "an inverse, any zero counts":          (INVERSE,                                    TWICE,    "",   GUARDED),
    "an inverse, only masks count":         (INVERSE,                                    TWICE,    ONLY, PLAIN),
    "an inverse behind a mask":             (INVERSE,                                    TAKEN,    ONLY, GUARDED),
    "an inverse behind a check of bounds":  (INVERSE,                                    IN_RANGE, ONLY, PLAIN),
    "a power that may overflow":            ("%p = exp %x",                              MASKED,   "",   GUARDED),
    "a power that does not":                ("%a = abs %x  %n = neg %a  %p = exp %n",    MASKED,   "",   PLAIN),
    "a root of a negative number":          ("%p = sqrt %x",                             MASKED,   "",   GUARDED),
    "a root of no negative number":         ("%a = abs %x  %p = sqrt %a",                MASKED,   "",   PLAIN),
    "a logarithm":                          ("%p = log %x",                              MASKED,   "",   GUARDED),
    "an inverse between two bounds":        (
        "%i = div %one, %x  %j = max %i, %zero  %p = min %j, %one",                      MASKED,   "",   PLAIN),
    "an inverse below a bound":             ("%i = div %one, %x  %p = min %i, %one",     MASKED,   "",   GUARDED),
    "a logarithm that a loop carries":      (
        "%n = const 3 : i32  %p = for %n, %x : f32 (%i: i32, %a: f32) { %b = log %a yield %b }", MASKED, "", GUARDED),
}
# fmt: on
INPUTS = [([x], [d], c) for x in (0.0, 3.0, 100.0) for d in (0.0, 2.0) for c in (True, False)]


@pytest.mark.parametrize("partial, derivative, attributes, product", CASES.values(), ids=CASES)
def test_products(partial, derivative, attributes, product):
    parts = {"partial": partial, "derivative": derivative}
    before = TEXT.format(product=f"%s = scale %p, %m {attributes}", **parts)
    after = TEXT.format(product=product, **parts)
    inputs = [
        row for row in INPUTS if not attributes or row[0] != [0.0]
    ]  # there the zero of a sum gives a NaN
    assert_becomes(settle_products, before, after, inputs)


def test_other_functions_may_give_anything():
    """A parameter may be infinite, and may be a zero of a mask: both factors win."""
    before = "func @f(%p: f32, %d: f32) -> (f32) { %s = scale %p, %d yield %s }"
    after = """
    func @f(%p: f32, %d: f32) -> (f32) {
      %q = mul %p, %d
      %zero = const 0.0 : f32
      %y = equal %d, %zero
      %z = equal %p, %zero
      %e = or %y, %z
      %s = select %e, %zero, %q
      yield %s
    }"""
    numbers = (0.0, 2.0, float("inf"), float("nan"))
    assert_becomes(settle_products, before, after, [(x, y) for x in numbers for y in numbers])
