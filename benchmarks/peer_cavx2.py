"""C by hand for AVX2 and FMA (c_avx2.c): what a good compiler could emit on a machine without AVX-512. Needs gcc."""

import ctypes
import os
import subprocess
import tempfile

import numpy as np
import workloads as w

FLAGS = ["-O3", "-march=x86-64-v3", "-mtune=native", "-fno-math-errno", "-fopenmp", "-shared", "-fPIC"]
CANNOT = dict.fromkeys(("W6", "W7a", "W7b"), "not written")


def build():
    library = os.path.join(tempfile.mkdtemp(), "c_avx2.so")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "c_avx2.c")
    subprocess.run(["gcc", *FLAGS, source, "-o", library], check=True)
    loaded = ctypes.CDLL(library)
    loaded.w4.restype = ctypes.c_float
    return loaded


def version():
    return subprocess.run(
        ["gcc", "-dumpfullversion"], capture_output=True, text=True, check=True
    ).stdout.strip()


c = build()
INFO = {"version": "gcc " + version()}


def padded(n, dtype=np.float32):
    """Zeros at a multiple of 64 bytes, with room up to the next whole vector."""
    room = np.zeros(-(-n // 32) * 128 + 64, np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + 4 * n].view(dtype)


def copied(a):
    copy = padded(a.size, a.dtype)
    copy[:] = a.ravel()
    return copy


CONVERSIONS = {
    int: ctypes.c_long,
    float: ctypes.c_float,
    np.ndarray: lambda a: ctypes.c_void_p(a.ctypes.data),
}


def bound(function, *arguments):
    """A call of `function` whose arguments are converted once; it keeps the arrays alive."""
    converted = [CONVERSIONS[type(a)](a) for a in arguments]
    return lambda keep=arguments: function(*converted)


def elementwise(fwd, bwd, constants, d):
    n = d["n"]
    x, gy, y, gx = copied(d["x"]), copied(d["gy"]), padded(n), padded(n)
    return {
        "fwd": (bound(fwd, n, *constants, x, y), lambda: {"y": y}),
        "bwd": (bound(bwd, n, *constants[:2], x, gy, gx), lambda: {"gx": gx}),
    }


def W1(d):
    return elementwise(c.w1_fwd, c.w1_bwd, (w.A, w.B, w.C), d)


def W2(d):
    return elementwise(c.w2_fwd, c.w2_bwd, (), d)


def training_step(d, variant, n):
    weights = [d[k].astype(np.float32).copy() for k in ("w1", "b1", "w2", "b2")]
    gradients = np.zeros(149, np.float32)

    def outputs():
        named = dict(
            zip(("gw1", "gb1", "gw2", "gb2", "loss"), np.split(gradients, [64, 80, 144, 148]), strict=True)
        )
        return named | dict(zip(("new_w1", "new_b1", "new_w2", "new_b2"), weights, strict=True))

    samples = copied(d["x" + variant]), copied(d["y" + variant])
    return bound(c.w3, n, w.w3_lr(n), *samples, *weights, gradients), outputs


def W3(d):
    return {variant: training_step(d, variant, n) for variant, n in w.W3_SIZES.items()}


def lookup(d, variant, size):
    gradient, result = padded(size), {}
    arrays = copied(d["table" + variant]), copied(d["idx" + variant]), copied(d["w"])
    call = bound(c.w4, d["n"], size, *arrays, gradient)
    return lambda: result.update(loss=call()), lambda: result | {"gt": gradient}


def W4(d):
    return {variant: lookup(d, variant, size) for variant, size in w.W4_SIZES.items()}


def W5a(d):
    out = padded(d["cr"].size)
    call = bound(c.w5a, out.size, w.MANDEL_ITERS, copied(d["cr"]), copied(d["ci"]), out)
    return {"fwd": (call, lambda: {"smooth": out})}


def W5b(d):
    assert w.LOOP_ITERS == 64, "the C code has its number of steps built in"
    x, gp = padded(d["n"]), padded(d["n"])

    # The result is the gradient of one call: clearing is part of it.
    call = bound(c.w5b, d["n"], w.LOOP_STEP, copied(d["p"]), x, gp)

    def grad():
        gp.fill(0)
        call()

    return {"grad": (grad, lambda: {"x": x, "gp": gp})}


def W7c(d):
    e = padded(d["n"])
    return {"fwd": (bound(c.w7c, d["n"], *(copied(d[k]) for k in "abcd"), e), lambda: {"e": e})}


class Bound(ctypes.Structure):
    """`struct bound` of the C file."""

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


NO_ARGUMENTS = 4  # METH_NOARGS
kept = []


def builtin(function, *arguments):
    """A Python builtin that runs `function` on arguments bound in a capsule: the cheapest call there is."""
    python, held = ctypes.pythonapi, Bound(*arguments)
    definition = MethodDefinition(b"run", ctypes.cast(function, ctypes.c_void_p).value, NO_ARGUMENTS, None)
    python.PyCapsule_New.restype = python.PyCFunction_NewEx.restype = ctypes.py_object
    kept.append((held, definition))
    capsule = ctypes.py_object(python.PyCapsule_New(ctypes.byref(held), None, None))
    return python.PyCFunction_NewEx(ctypes.byref(definition), capsule, None)


def W8(d):
    n, x, gy, y, gx = d["n"], copied(d["x"]), copied(d["gy"]), padded(d["n"]), padded(d["n"])
    inputs = n, w.A, w.B, w.C, x.ctypes.data, gy.ctypes.data
    kept.append((x, gy, y, gx))
    called = W1(d)
    return {
        "fwd": (builtin(c.w8_fwd, *inputs, y.ctypes.data), lambda: {"y": y}),
        "bwd": (builtin(c.w8_bwd, *inputs, gx.ctypes.data), lambda: {"gx": gx}),
        "fwd/ctypes": called["fwd"],
        "bwd/ctypes": called["bwd"],
    }
