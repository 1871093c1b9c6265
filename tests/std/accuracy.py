"""How far the functions of `std` are off, in units in the last place: inputs, one kernel for many functions, errors.

    Machine(device).run("float", [rows], [xs])     arrays: per row the value and, in both modes, each partial
    errors(got, exact, "float")                    of each number; infinity where a NaN, an infinity or a sign is wrong

One kernel of a type computes all functions of one number, another those of two, and so on: compiling costs more than
running.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import slangrad as spy
from tests.std.exact import Pair, Row

TYPES = {"half": np.float16, "float": np.float32, "double": np.float64}
WORDS = {"half": np.uint16, "float": np.uint32, "double": np.uint64}
DIGITS = {"half": 11, "float": 24, "double": 53}
NAMES = "xyz"


# --- Inputs -------------------------------------------------------------------------------------------


def all_halves() -> np.ndarray:
    return np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)


def special(number: str) -> np.ndarray:
    """About 300 numbers: zeros, the ends of the range, neighbors of whole numbers, poles, thresholds, infinities, NaN."""
    t = TYPES[number]
    info = np.finfo(t)
    ends = [info.smallest_subnormal, info.smallest_normal, info.max]
    powers = [
        2.0**k for k in (-1000, -500, -120, -60, -26, -24, -14, -12, -7, -3, -1, 0, 1, 3, 8, 11, 15, 24, 53, 63, 100, 127, 512)
    ]  # fmt: skip
    whole = [1.5, 2.5, 3.0, 4.5, 5.0, 10.0, 100.0, 2047.0, 6400.0, 1.5e6]
    parts = [0.25, 0.4142135623730951, 0.55, 0.625, 0.7071067811865476, 0.75, 0.9]
    angles = [np.pi / 4, np.pi / 2, np.pi, 3 * np.pi / 2, 1000 * np.pi]
    logs = [np.log(float(info.max)), -np.log(float(info.smallest_subnormal)), -np.log(float(info.tiny))]
    logs += [np.log2(float(info.max)), np.log10(float(info.max)), 7.6, 8.906, 9.6, 27.2, 0.693147]
    roots = [float(info.max) ** 0.5, float(info.max) ** (1 / 3), float(info.tiny) ** 0.5, float(info.max) / 2]
    with np.errstate(all="ignore"):
        base = np.array([*powers, *whole, *parts, *angles, *logs, *roots], np.float64).astype(t)
        base = base[np.isfinite(base) & (base > 0)]
        around = [base, np.nextafter(base, t(np.inf)), np.nextafter(base, t(0))]
        smallest = info.smallest_subnormal * np.array([1, 2, 3, 5, 100], t)
        edges = np.array(ends, t)
        around += [smallest, edges, np.nextafter(edges, t(0))]
    positive = np.unique(np.concatenate([[t(0)], *around, [t(np.inf)]]).astype(t))
    return np.concatenate([positive, -positive, np.array([np.nan], t)])


def random_numbers(number: str, count: int, seed: int) -> np.ndarray:
    """A half of all bit patterns, a half of moderate size, where most functions bend."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, np.iinfo(WORDS[number]).max, count // 2, WORDS[number], endpoint=True)
    moderate = 2.0 ** rng.uniform(-12, 11, count - count // 2) * rng.choice([-1.0, 1.0], count - count // 2)
    both = np.concatenate([bits.view(TYPES[number]), moderate.astype(TYPES[number])])
    return rng.permutation(both)


def tuples(number: str, arity: int, specials: int, count: int, seed: int) -> list[np.ndarray]:
    """`specials` tuples of special numbers, all of them where there are no more, then `count` random ones."""
    rng = np.random.default_rng(seed)
    given = special(number)
    if len(given) ** arity <= specials:
        chosen = [each.ravel() for each in np.meshgrid(*[given] * arity)]
    else:
        chosen = [rng.choice(given, specials) for _ in range(arity)]
    others = [random_numbers(number, count, seed + 1 + i) for i in range(arity)]
    near = rng.random(count) < 0.25  # neighbors, for cancellation
    if arity > 1 and count:
        with np.errstate(all="ignore"):
            close = (others[0] * (1 + rng.normal(0, 0.01, count))).astype(TYPES[number])
        others[1] = np.where(near, close, others[1])
    return [np.concatenate(pair) for pair in zip(chosen, others, strict=True)]


# --- Kernels ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """`forward` and `backward`: an array for each operand; empty where the row has no partials."""

    value: np.ndarray
    forward: list[np.ndarray]
    backward: list[np.ndarray]


class Machine:
    """Kernels of a device, each made once."""

    def __init__(self, device: spy.Device) -> None:
        self.device, self._kernels = device, {}

    def run(self, number: str, rows: Sequence[Row], inputs: Sequence[np.ndarray]) -> list[Result]:
        key = number, tuple(rows)
        if key not in self._kernels:
            self._kernels[key] = self._compile(number, rows)
        count, widths = len(inputs[0]), [_width(row) for row in rows]
        result = self.device.create_buffer(data=np.zeros(sum(widths) * count, TYPES[number]))
        given = {f"{NAMES[i]}s": self.device.create_buffer(data=x) for i, x in enumerate(inputs)}
        self._kernels[key].dispatch([count, 1, 1], result=result, count=count, **given)
        table = result.to_numpy().view(TYPES[number]).reshape(-1, count)
        return [_result(row, part) for row, part in zip(rows, np.split(table, np.cumsum(widths)[:-1]))]

    def _compile(self, number: str, rows: Sequence[Row]) -> spy.ComputeKernel:
        text = kernel_text(number, rows)
        module = self.device.load_module_from_source(f"accuracy_{number}_{abs(hash(text))}", text)
        program = self.device.link_program([module], [module.entry_point("main")])
        return self.device.create_compute_kernel(program)


def _width(row: Row) -> int:
    return 1 + 2 * row.arity if row.partials else 1


def _result(row: Row, part: np.ndarray) -> Result:
    return Result(part[0], list(part[1 : 1 + row.arity]), list(part[1 + row.arity :]))


def kernel_text(number: str, rows: Sequence[Row]) -> str:
    """A function for each row, and a kernel that writes all their results, a row of `result` each."""
    arity = rows[0].arity
    names = NAMES[:arity]
    functions, lines, at = [f"typealias T = {number};"], [], 0
    for k, row in enumerate(rows):
        body = row.call or f"{{ return {row.name}({', '.join(names)}); }}"
        parameters = ", ".join(f"T {n}" for n in names)
        functions.append(f"{'[Differentiable] ' if row.partials else ''}T f{k}({parameters}) {body}")
        lines.append(f"result[{at} * count + i] = f{k}({', '.join(names)});")
        at += 1
        if row.partials:
            functions += _slices(k, names)
            lines += _derivatives(k, names, at)
            at += 2 * arity
    reads = " ".join(f"T {n} = {n}s[i];" for n in names)
    uniforms = "".join(f", uniform T* {n}s" for n in names)
    return (
        "\n".join(functions)
        + f"""
        [shader("compute")] [numthreads(64, 1, 1)]
        void main(uint i : SV_DispatchThreadID, uniform T* result, uniform uint count{uniforms})
        {{
            if (i >= count) return;
            {reads}
            {" ".join(lines)}
        }}"""
    )


def _slices(k: int, names: str) -> list[str]:
    """The function of each operand alone: a tangent of zero times an infinite partial would be NaN."""
    return [
        f"[Differentiable] T f{k}{n}({', '.join(f'T {m}' if m == n else f'no_diff T {m}' for m in names)}) "
        f"{{ return f{k}({', '.join(names)}); }}"
        for n in names
    ]


def _derivatives(k: int, names: str, at: int) -> list[str]:
    """Lines that write the partials by forward mode, then those by reverse mode."""
    lines = []
    for j, n in enumerate(names):
        given = ", ".join(f"diffPair({m}, T(1))" if m == n else m for m in names)
        lines.append(f"result[{at + j} * count + i] = fwd_diff(f{k}{n})({given}).d;")
    pairs = " ".join(f"var p{k}{n} = diffPair({n}, T(0));" for n in names)
    stores = " ".join(f"result[{at + len(names) + j} * count + i] = p{k}{n}.d;" for j, n in enumerate(names))
    return [*lines, f"{pairs} bwd_diff(f{k})({', '.join(f'p{k}{n}' for n in names)}, T(1)); {stores}"]


# --- Errors -------------------------------------------------------------------------------------------


def errors(
    got: np.ndarray, exact: Pair, number: str, of: np.ndarray | None = None, signs: bool = True
) -> np.ndarray:
    """|got - exact| in units in the last place of `exact`, or of `of`. Infinity where a NaN or the sign of a zero is
    wrong; an infinite result counts as the number after the greatest one."""
    head, tail = exact
    info = np.finfo(TYPES[number])
    most = 2.0 ** (info.maxexp - 2)  # a quarter of the first number beyond, which for double is no double
    with np.errstate(all="ignore"):
        shrink = np.where(np.abs(head) > 1, 0.25, 1.0)
        size = np.minimum(np.abs(head) if of is None else np.maximum(of, np.abs(head)), float(info.max))
        unit = np.maximum(np.ldexp(1.0, np.frexp(size)[1] - DIGITS[number]), float(info.smallest_subnormal))
        result = got.astype(np.float64)
        scaled, wanted = (np.clip(x * shrink, -most, most) for x in (result, head))
        spacing = np.maximum(np.ldexp(1.0, np.frexp(head)[1] - DIGITS["double"]), 5e-324)
        spacing = np.where(head == 0, 5e-324, spacing)
        left = np.where(tail == 0, 0.0, tail * (spacing / unit))
        off = np.abs((scaled - wanted) / (unit * shrink) - left)
    nan = np.isnan(head)
    if of is not None:  # a term may be beyond the range
        beyond = ~(of < float(info.max) / 2)
        off = np.where(beyond, 0.0, off)
        nan = nan | beyond & np.isnan(result)
    off = np.where(np.isnan(result) != nan, np.inf, np.where(nan, 0.0, off))
    if signs:
        wrong = (head == 0) & (result == 0) & (np.signbit(head) != np.signbit(result))
        off = np.where(wrong, np.inf, off)
    return off
