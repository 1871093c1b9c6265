"""What c_simd.c and c_avx2.c need in Python: compiling, arrays in their form, calls with bound arguments.

In: a C file with functions w1_fwd, w1_bwd, ... and gcc's flags. Out: a `Handwritten`, whose methods are the
functions of a peer. Nothing is converted in a timed call.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import workloads as w

HERE = Path(__file__).resolve().parent
SHARED = ["-O3", "-fopenmp", "-shared", "-fPIC"]
NO_ARGUMENTS = 4  # METH_NOARGS of CPython
GRADIENTS = {"gw1": 64, "gb1": 16, "gw2": 64, "gb2": 4, "loss": 1}  # of W3, as they lie in its array

Made = dict[str, tuple[Callable[[], Any], Callable[[], dict[str, Any]]]]


def gcc(*arguments: str) -> str:
    """What gcc prints; an ImportError says why it cannot be had."""
    try:
        done = subprocess.run(["gcc", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ImportError("needs gcc") from None
    if done.returncode:
        raise ImportError(f"gcc: {done.stderr.strip().splitlines()[0]}")
    return done.stdout.strip()


def version() -> dict[str, str]:
    return {"version": f"gcc {gcc('-dumpfullversion')}"}


def build(source: str, flags: list[str]) -> ctypes.CDLL:
    """Compiles a file of this folder and loads it."""
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/peer.so"
        gcc(*SHARED, *flags, str(HERE / source), "-o", library, "-lm")
        return ctypes.CDLL(library)


def padded(n: int, dtype: type = np.float32) -> np.ndarray:
    """Zeros at a multiple of 64 bytes, with room up to the next whole vectors."""
    room = np.zeros(-(-n // 64) * 256 + 64, np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + 4 * n].view(dtype)


def copied(array: np.ndarray) -> np.ndarray:
    copy = padded(array.size, array.dtype)
    copy[:] = array.ravel()
    return copy


CONVERSIONS = {
    int: ctypes.c_long,
    float: ctypes.c_float,
    np.ndarray: lambda array: ctypes.c_void_p(array.ctypes.data),
}


def bound(function: Any, *arguments: Any) -> Callable[[], Any]:
    """A call of `function` whose arguments are converted once; it keeps the arrays alive."""
    converted = [CONVERSIONS[type(argument)](argument) for argument in arguments]
    return lambda keep=arguments: function(*converted)


class Bound(ctypes.Structure):
    """`struct bound` of the C files."""

    _fields_ = [
        ("n", ctypes.c_long),
        *((name, ctypes.c_float) for name in "abc"),
        *((name, ctypes.c_void_p) for name in ("x", "gy", "out")),
    ]


class MethodDefinition(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    ]


kept: list[Any] = []


def builtin(function: Any, *arguments: Any) -> Callable[[], Any]:
    """A Python builtin that runs `function` on arguments bound in a capsule: the cheapest call there is."""
    python, held = ctypes.pythonapi, Bound(*arguments)
    definition = MethodDefinition(b"run", ctypes.cast(function, ctypes.c_void_p).value, NO_ARGUMENTS, None)
    python.PyCapsule_New.restype = python.PyCFunction_NewEx.restype = ctypes.py_object
    kept.append((held, definition))
    capsule = ctypes.py_object(python.PyCapsule_New(ctypes.byref(held), None, None))
    return python.PyCFunction_NewEx(ctypes.byref(definition), capsule, None)


class Handwritten:
    """The workloads by hand in a C library."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.c = library
        for name in ("w4", "w6"):
            if hasattr(library, name):
                getattr(library, name).restype = ctypes.c_float

    def elementwise(self, name: str, constants: tuple[float, ...], d: w.Data) -> Made:
        forward, backward = getattr(self.c, name + "_fwd"), getattr(self.c, name + "_bwd")
        n, x, gy = d["n"], copied(d["x"]), copied(d["gy"])
        y, gx = padded(n), padded(n)
        return {
            "fwd": (bound(forward, n, *constants, x, y), lambda: {"y": y}),
            "bwd": (bound(backward, n, *constants[:2], x, gy, gx), lambda: {"gx": gx}),
        }

    def w1(self, d: w.Data) -> Made:
        return self.elementwise("w1", (w.A, w.B, w.C), d)

    def w2(self, d: w.Data) -> Made:
        return self.elementwise("w2", (), d)

    def w3(self, d: w.Data) -> Made:
        def one(variant: str, n: int) -> Any:
            weights = {name: d[name].astype(np.float32).copy() for name in ("w1", "b1", "w2", "b2")}
            gradients = np.zeros(sum(GRADIENTS.values()), np.float32)
            cuts = np.cumsum(list(GRADIENTS.values()))[:-1]
            samples = copied(d["x" + variant]), copied(d["y" + variant])

            def outputs() -> dict[str, Any]:
                named = dict(zip(GRADIENTS, np.split(gradients, cuts)))
                return named | {f"new_{name}": value for name, value in weights.items()}

            return bound(self.c.w3, n, w.w3_lr(n), *samples, *weights.values(), gradients), outputs

        return {variant: one(variant, n) for variant, n in w.W3_SIZES.items()}

    def w4(self, d: w.Data) -> Made:
        def one(variant: str, size: int) -> Any:
            gradient, result = padded(size), {}
            arrays = copied(d["table" + variant]), copied(d["idx" + variant]), copied(d["w"])
            call = bound(self.c.w4, d["n"], size, *arrays, gradient)
            return lambda: result.update(loss=call()), lambda: result | {"gt": gradient}

        return {variant: one(variant, size) for variant, size in w.W4_SIZES.items()}

    def w5a(self, d: w.Data) -> Made:
        out = padded(d["cr"].size)
        call = bound(self.c.w5a, out.size, w.MANDEL_ITERS, copied(d["cr"]), copied(d["ci"]), out)
        return {"fwd": (call, lambda: {"smooth": out})}

    def w5b(self, d: w.Data) -> Made:
        assert w.LOOP_ITERS == 64, "the C code has its number of steps built in"
        x, gp = padded(d["n"]), padded(d["n"])
        call = bound(self.c.w5b, d["n"], w.LOOP_STEP, copied(d["p"]), x, gp)
        return {"grad": (call, lambda: {"x": x, "gp": gp})}

    def w6(self, d: w.Data) -> Made:
        gg, result = np.zeros((9, w.NG), np.float32), {}
        call = bound(self.c.w6, w.IMG, w.NG, copied(d["g"]), copied(d["target"]), gg)
        return {"grad": (lambda: result.update(loss=call()), lambda: result | {"gg": gg})}

    def w7c(self, d: w.Data) -> Made:
        e = padded(d["n"])
        return {
            "fwd": (bound(self.c.w7c, d["n"], *(copied(d[name]) for name in "abcd"), e), lambda: {"e": e})
        }

    def w9(self, d: w.Data) -> Made:
        """In a library of its own, c_texture.c."""
        clamp, side, n = 1, d["side"], d["n"]
        texels, ct, gradient, color = (
            copied(d["texels"]),
            copied(d["ct"]),
            padded(4 * side * side),
            padded(4 * n),
        )
        made: Made = {}
        for order in ("random", "coherent"):
            uv = copied(d["uv" + order])
            call = bound(self.c.w9_values, n, side, side, clamp, texels, uv, color)
            made[order] = call, lambda: {"color": color}
            call = bound(self.c.w9_gradients, n, side, side, clamp, gradient, uv, ct)
            made[f"grad {order}"] = call, lambda: {"gt": gradient}
        return made

    def w8(self, d: w.Data) -> Made:
        n, x, gy, y, gx = d["n"], copied(d["x"]), copied(d["gy"]), padded(d["n"]), padded(d["n"])
        inputs = n, w.A, w.B, w.C, x.ctypes.data, gy.ctypes.data
        kept.append((x, gy, y, gx))
        called = self.w1(d)
        return {
            "fwd": (builtin(self.c.w8_fwd, *inputs, y.ctypes.data), lambda: {"y": y}),
            "bwd": (builtin(self.c.w8_bwd, *inputs, gx.ctypes.data), lambda: {"gx": gx}),
            "fwd/ctypes": called["fwd"],
            "bwd/ctypes": called["bwd"],
        }
