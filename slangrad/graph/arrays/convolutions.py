"""Convolutions and pooling of images, (batch, channels, height, width); kernels are (outputs, channels, height, width).

    conv2d(x, w, padding=1)      traced: a node `conv`; in NumPy: windows of the image times the kernel
    max_pool2d(x, 2)             the largest of each window

A node `conv` first puts `spread` - 1 zeros between pixels and `padding` zeros around them, so that its derivatives are
convolutions, too.
"""

from __future__ import annotations

import numpy as np

from slangrad.graph.arrays.array import BOOL, Array, axis_of, checked_type, constant, implements, lifted
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.node import Convolution, Shape, make
from slangrad.graph.ir.values import Operand

Pair = tuple[int, int]
Padding = tuple[Pair, Pair]
sliding_window_view = np.lib.stride_tricks.sliding_window_view


# --- methods of traced arrays


@implements(method="windows")
def windows(x: Array, axis: int, size: int, dilation: int = 1) -> Array:
    """A view with one more axis at the end: the `size` elements from each one on, `dilation` apart."""
    count = x.shape[axis] - (size - 1) * dilation
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :], size)
    return Array(make("windows", [x.node], shape, x.dtype, axis=axis, size=size, every=dilation))


@implements(sliding_window_view)
def sliding_windows(x: Operand, window_shape: Operand, axis: Operand = None, **_: Operand) -> Array:
    """np.lib.stride_tricks.sliding_window_view."""
    view, sizes = lifted(x), np.atleast_1d(window_shape).tolist()
    axes = (
        range(view.ndim)
        if axis is None
        else [axis_of(place, view.ndim) for place in np.atleast_1d(axis).tolist()]
    )
    for i, size in zip(axes, sizes, strict=True):
        if not 0 < size <= view.shape[i]:
            raise GraphError("E1042", f"windows of {size} along axis {i} of shape {view.shape}")
        view = windows(view, i, int(size))
    return view


@implements(method="convolved")
def convolved(x: Array, w: Array, convolution: Convolution) -> Array:
    """A node `conv`."""
    stride, padding, dilation, spread, _ = convolution
    starts, stops, pads = [0, 0], list(x.shape[2:]), list[Pair]()
    sizes = padded_sizes(x.shape, padding, spread)
    for i, ((low, high), step) in enumerate(zip(padding, spread, strict=True)):
        starts[i], cut = max(0, -(low // step)), max(0, -(high // step))
        stops[i] -= cut
        pads.append((low + starts[i] * step, high + cut * step))
    around = pads[0], pads[1]
    x = x[:, :, starts[0] : stops[0], starts[1] : stops[1]]
    steps = zip(sizes, w.shape[2:], stride, dilation, strict=True)
    shape = x.shape[0], w.shape[0], *((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in steps)
    if 0 in x.shape[2:] and sizes != padded_sizes(x.shape, around, spread):
        return constant(0, x.dtype).broadcast_to(shape)  # all pixels are cut off, and zeros between them stay
    attributes = convolution._replace(padding=around).attributes
    return Array(make("conv", [x.node, w.node], shape, x.dtype, **attributes))


def padded_sizes(shape: Shape, padding: Padding, spread: Pair) -> Pair:
    """Height and width with zeros between pixels and around them."""
    height, width = (
        max(0, (n - 1) * u + 1) + low + high
        for n, (low, high), u in zip(shape[2:], padding, spread, strict=True)
    )
    return height, width


# --- convolutions


def conv2d(
    x: Operand,
    w: Operand,
    bias: Operand = None,
    *,
    stride: int | Pair = 1,
    padding: int | Pair | str = 0,
    dilation: int | Pair = 1,
    groups: int = 1,
) -> Operand:
    """Each output channel is the sum over the channels of its group of x, correlated with its kernel, plus its bias.

    x: (batch, channels, height, width). w: (outputs, channels / groups, kernel height, kernel width). bias: (outputs,).
    `padding`: zeros around the image, or "valid" (0), or "same": the result has the image's size. Pairs are of height
    and width. The result has shape (batch, outputs, ...) and the common dtype of x and w.

    GraphError (E1042) where shapes do not fit.
    """
    steps, spacing = _pair("stride", stride), _pair("dilation", dilation)
    _check_shapes(np.shape(x), np.shape(w), None if bias is None else np.shape(bias), groups)
    pads = _padding(padding, np.shape(w)[2:], steps, spacing)
    sizes = padded_sizes(np.shape(x), pads, (1, 1))
    if any(n < d * (k - 1) + 1 for n, k, d in zip(sizes, np.shape(w)[2:], spacing, strict=True)):
        message = f"conv2d: the kernel of {np.shape(w)} is larger than x of {np.shape(x)} with padding {pads}"
        raise GraphError("E1042", message, "padding=... adds zeros around the image")
    if isinstance(x, Array) or isinstance(w, Array):
        a, b = lifted(x), lifted(w)
        dtype = checked_type(np.result_type(a.dtype, b.dtype))
        if dtype == BOOL:
            raise GraphError("E1042", "conv2d: x and w are truth values", "x.astype(np.int32) counts")
        convolution = Convolution(steps, pads, spacing, groups=groups)
        result: Operand = convolved(a.astype(dtype), b.astype(dtype), convolution)
    else:
        result = _in_numpy(np.asarray(x), np.asarray(w), steps, pads, spacing, groups)
    return result if bias is None else result + np.reshape(bias, (1, -1, 1, 1))


def _in_numpy(x: Operand, w: Operand, stride: Pair, padding: Padding, dilation: Pair, groups: int) -> Operand:
    """A product of matrices for each image and group."""
    outputs, channels, *kernel = w.shape
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    padded = np.pad(x, ((0, 0), (0, 0), *padding))
    seen = sliding_window_view(padded, spans, (2, 3))
    seen = seen[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    batch, _, *out = seen.shape[:4]
    columns = seen.transpose(0, 1, 4, 5, 2, 3).reshape(
        batch, groups, channels * np.prod(kernel), np.prod(out)
    )
    return np.matmul(w.reshape(groups, outputs // groups, -1), columns).reshape(batch, outputs, *out)


def _pair(name: str, value: Operand, least: int = 1) -> Pair:
    pair = tuple(value) if isinstance(value, tuple | list) else (value, value)
    if len(pair) != 2 or not all(isinstance(n, int | np.integer) and n >= least for n in pair):
        message = f"{name}={value!r} is neither an integer from {least} on nor a pair of them"
        raise GraphError("E1042", message)
    return int(pair[0]), int(pair[1])


def _padding(padding: Operand, kernel: Shape, stride: Pair, dilation: Pair) -> Padding:
    if padding == "same" and stride != (1, 1):
        raise GraphError("E1042", f"conv2d: padding='same' with stride {stride}", "give numbers: padding=1")
    if isinstance(padding, str) and padding not in ("same", "valid"):
        raise GraphError("E1042", f"conv2d: padding={padding!r}", "write 'same', 'valid' or numbers")
    if padding == "same":
        both = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        return (both[0] // 2, both[0] - both[0] // 2), (both[1] // 2, both[1] - both[1] // 2)
    height, width = _pair("padding", 0 if padding == "valid" else padding, 0)
    return (height, height), (width, width)


def _check_shapes(x: Shape, w: Shape, bias: Shape | None, groups: int) -> None:
    if len(x) != 4:
        message = f"conv2d: x has shape {x}, not (batch, channels, height, width)"
        raise GraphError("E1042", message, "x[None] adds an axis of one element")
    if len(w) != 4 or 0 in w:
        raise GraphError("E1042", f"conv2d: w has shape {w}, not (outputs, channels / groups, height, width)")
    if not isinstance(groups, int) or groups < 1 or x[1] % groups or w[0] % groups:
        sizes = f"{x[1]} channels of x {x} and {w[0]} outputs of w {w}"
        raise GraphError(
            "E1042", f"conv2d: {groups!r} groups do not divide {sizes}", "groups=1 joins all channels"
        )
    if x[1] != w[1] * groups:
        message = f"conv2d: x {x} has {x[1] // groups} channels a group, and w {w} takes {w[1]}"
        fits = f"; groups={x[1] // w[1]} would fit" if x[1] % w[1] == 0 and w[0] % (x[1] // w[1]) == 0 else ""
        raise GraphError("E1042", message, f"w has shape (outputs, channels / groups, height, width){fits}")
    if bias is not None and bias != w[:1]:
        raise GraphError("E1042", f"conv2d: bias has shape {bias}, and w {w} has {w[0]} outputs")


# --- pooling


def max_pool2d(
    x: Operand, size: int | Pair, stride: int | Pair | None = None, padding: int | Pair = 0
) -> Operand:
    """The largest element of each window of (..., height, width). `stride`: from window to window, by default `size`.
    Windows that would reach over the edge of the padded image are left out. The result has the dtype of x. GraphError
    (E1042) where there is no window."""
    dtype = np.result_type(x)
    least = -np.inf if dtype.kind == "f" else False if dtype.kind == "b" else np.iinfo(dtype).min
    return np.max(_pooled("max_pool2d", x, size, stride, padding, least), (-2, -1))


def avg_pool2d(
    x: Operand, size: int | Pair, stride: int | Pair | None = None, padding: int | Pair = 0
) -> Operand:
    """The mean of each window of (..., height, width), zeros of the padding included; integers give float64. See
    `max_pool2d`."""
    return np.mean(_pooled("avg_pool2d", x, size, stride, padding, 0), (-2, -1))


def _pooled(
    name: str, x: Operand, size: Operand, stride: Operand, padding: Operand, filler: Operand
) -> Operand:
    """(..., height, width, window height, window width)."""
    (p, q), pads = _pair("size", size), _pair("padding", padding, 0)
    s, t = (p, q) if stride is None else _pair("stride", stride)
    if any(pads):
        edges = [(0, 0)] * (np.ndim(x) - 2) + [(n, n) for n in pads]
        x = np.pad(x, edges, constant_values=filler)
    *rest, height, width = np.shape(x) if np.ndim(x) >= 2 else (0, 0)
    if height < p or width < q:
        message = f"{name}: x of shape {np.shape(x)} has no window of {(p, q)}"
        raise GraphError("E1042", message, "x is (..., height, width)")
    if (s, t) != (p, q):
        return sliding_window_view(x, (p, q), (-2, -1))[..., ::s, ::t, :, :]
    x = x[..., : height // p * p, : width // q * q]
    return np.swapaxes(np.reshape(x, (*rest, height // p, p, width // q, q)), -3, -2)
