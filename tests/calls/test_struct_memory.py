"""Structs of any form: NumPy, cursors and kernels agree where their fields lie."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slangrad as spy

KINDS = {"bool": 1, "int8_t": 9, "int16_t": 99, "int": 99, "int64_t": 99, "uint8_t": 9, "uint16_t": 99, "uint": 99,
         "uint64_t": 99, "half": 99, "float": 99, "double": 99}  # fmt: skip
FORMS = ["", "", "2", "3", "4", "2x3", "3x2", "[2]", "3[2]"]
FIELDS = st.lists(st.tuples(st.sampled_from(list(KINDS)), st.sampled_from(FORMS)), min_size=1, max_size=5)


@pytest.fixture(scope="module")
def interpreter():
    return spy.create_device(backend="interpreter")


def declared(name: str, fields: list[tuple[str, str]], inner: str = "") -> str:
    lines = [f"{kind}{form.split('[')[0]} f{i}{form[form.find('['):] if '[' in form else ''};" for i, (kind, form) in enumerate(fields)]  # fmt: skip
    return f"struct {name} {{ {' '.join(lines)} {inner} }}"


@settings(max_examples=5, deadline=None)
@given(FIELDS, FIELDS, st.randoms(use_true_random=False))
def test_random_structs(interpreter, outer, nested, random):
    program = f"""
        {declared("Inner", nested)}
        {declared("Outer", outer, "Inner inner[2];")}
        Outer same(Outer o) {{ return o; }}
        Inner second(Outer o) {{ return o.inner[1]; }}
        void put(inout Outer o, Inner i) {{ o.inner[0] = i; }}
    """
    module = spy.Module.load_from_source(interpreter, f"structs_{random.getrandbits(60)}", program)
    tensor = spy.Tensor.zeros(interpreter, (3,), module.Outer)
    rng = np.random.default_rng(random.getrandbits(32))
    dtype = tensor.to_numpy(structured=True).dtype
    assert dtype.itemsize == tensor.storage.struct_size
    records = np.zeros(3, dtype)
    _fill(records, outer, rng)
    _fill(records["inner"], nested, rng)
    tensor.copy_from_numpy(records)

    copied = module.same(tensor[::-1])
    assert _equal(copied.to_numpy(structured=True), records[::-1])
    inner = module.second(tensor)
    assert _equal(inner.to_numpy(structured=True), records["inner"][:, 1])
    module.put(tensor, inner)
    assert _equal(tensor.to_numpy(structured=True)["inner"][:, 0], records["inner"][:, 1])

    made = spy.Tensor.zeros_like(copied)
    cursor, found = made.cursor(), copied.cursor()
    for target, source, record in zip(cursor, found, records[::-1]):
        target.write(source.read())
        for i in range(len(outer)):
            assert np.array_equal(np.array(source[f"f{i}"].read()), record[f"f{i}"])
    cursor.apply()
    assert _equal(made.to_numpy(structured=True), records[::-1])


def _fill(records: np.ndarray, fields: list[tuple[str, str]], rng: np.random.Generator) -> None:
    for i, (kind, _) in enumerate(fields):
        field = records[f"f{i}"]
        field[...] = rng.integers(0, KINDS[kind] + 1, field.shape)


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    """Field by field: what lies between fields does not count."""
    if a.dtype.names is None:
        return a.dtype == b.dtype and np.array_equal(a, b)
    return a.dtype.names == b.dtype.names and all(_equal(a[name], b[name]) for name in a.dtype.names)
