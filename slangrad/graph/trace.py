"""`jit`, `grad`, `value_and_grad`, `jvp`: functions of arrays that are traced once for each set of shapes and types.

@graph.jit
def f(x): return np.tanh(x) * 2          f(x) runs one kernel; f.explain(x) shows it
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import update_wrapper
from typing import Any, Generic, SupportsIndex, TypeGuard, TypeVar, Unpack

import numpy as np

import slangrad as spy
from slangrad.base.lazy import LazyModule
from slangrad.base.process.warn import warn
from slangrad.graph.arrays.array import Array, checked_type, lifted
from slangrad.graph.arrays.captured import Counting, assumptions
from slangrad.graph.arrays.gradient import add_all, compute_gradient, compute_tangent
from slangrad.graph.arrays.traces import TRACES, tracing
from slangrad.graph.arrays.trees import (
    PyTree,
    all_keys,
    all_leaves,
    filled,
    form_of,
    hidden_in,
    leaves,
    leaves_like,
    structure,
    tree_map,
)
from slangrad.graph.ir.devices import host_array, is_on_host
from slangrad.graph.ir.errors import GraphError, explained
from slangrad.graph.ir.layout import StridedLayout
from slangrad.graph.ir.node import Node, new_input, substituted
from slangrad.graph.ir.values import (
    ArrayValue,
    Operand,
    device_of,
    is_array,
    is_torch,
    layout_of,
    numpy_type,
    resolved,
    seen_as,
    shape_of,
)
from slangrad.graph.output.explain import PlanExplanation
from slangrad.graph.planning.options import PlanOptions, Settings
from slangrad.graph.planning.plan import Plan
from slangrad.graph.planning.recompute import bytes_in
from slangrad.graph.rewriting.copies import stored_results

TORCH = LazyModule("slangrad.graph.torch_bridge")

MOST_PLANS = 64
P = TypeVar("P")
Function = Callable[..., PyTree]  # the user's


def is_traced(value: object) -> TypeGuard[Array]:
    return isinstance(value, Array)


def is_result(leaf: object) -> TypeGuard[Operand]:
    """Whether a leaf of a function's result is an array, traced or not."""
    return is_traced(leaf) or is_array(leaf)


def is_value(leaf: object) -> TypeGuard[Operand]:
    """Whether a leaf is an array or a number."""
    return is_result(leaf) or type(leaf) in (bool, int, float)


def results_in(tree: object) -> list[Operand]:
    """The arrays of a function's result, in order. GraphError (E1043) for those in a set, an iterator or an object,
    and for keys of dicts that are traced: they have no elements when the dict is made."""
    for key in all_leaves(all_keys(tree)):
        if any(map(is_traced, [key, *hidden_in(key)])):
            message = "traced arrays cannot be keys of a dict that is returned"
            raise GraphError("E1043", message, "return them as values: a list of pairs")
    results = []
    for leaf in all_leaves(tree):
        if is_result(leaf):
            results.append(leaf)
            continue
        if isinstance(leaf, Iterator) or any(map(is_traced, hidden_in(leaf))):
            message = f"traced arrays cannot be returned in a {type(leaf).__name__}"
            raise GraphError("E1043", message, "return dicts, lists, tuples and dataclasses of them")
    return results


class Plans(Generic[P]):
    """The last plans of a function, by their keys."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._plans: dict[object, P] = {}
        self._assumed: dict[object, list[Counting]] = {}  # by plans that assume something

    def of(self, key: object, make: Callable[[], P]) -> P:
        """A plan is made anew if what it assumes is no longer so. GraphError (E1043) for keys that cannot be hashed."""
        try:
            plan = self._plans.get(key)
        except TypeError as error:
            advice = "arguments are arrays, and values that can be hashed"
            raise GraphError("E1043", f"arguments: {error}", advice) from None
        assumed: Sequence[Counting] = self._assumed.get(key, ()) if self._assumed else ()
        broken = [assumption.array for assumption in assumed if not assumption.holds()]
        if plan is not None and not broken:
            return plan
        if plan is None and len(self._plans) >= MOST_PLANS:
            oldest = next(iter(self._plans))
            self._plans.pop(oldest, None)
            self._assumed.pop(oldest, None)
            advice = "a number that changes from call to call is an input as np.float32(x)"
            warn(f"{self._name}: more than {MOST_PLANS} plans; {advice}", RuntimeWarning)
        with assumptions(broken) as collected:
            plan = make()
        self._plans[key] = plan
        if collected or assumed:
            self._assumed[key] = collected
        return plan


class CallArguments:
    """The arguments of a call. One walk finds `arrays`, in order, and `key`, which is equal for calls of one plan."""

    __slots__ = ("arrays", "key", "tree")

    def __init__(self, *tree: PyTree) -> None:
        self.tree = tree
        arrays: list[ArrayValue] = []
        form = structure(tree, arrays)
        self.arrays = list(map(resolved, arrays))
        self.key = form, *map(seen_as, self.arrays)

    def of(self, nodes: Iterable[Node]) -> tuple[PyTree, ...]:
        """The arguments with traced arrays in place of their arrays."""
        return filled(self.tree, map(Array, nodes), is_array)


class Jitted:
    """A function whose calls run plans. `f.explain(*args)` shows the plan of such arguments."""

    def __init__(
        self, function: Function, device: spy.Device | None = None, **settings: Unpack[Settings]
    ) -> None:
        self.function = function
        self.settings = settings  # of plans
        self.device = device
        self._plans = Plans[_Traced](name_of(function))
        self.jobs = Plans[PyTree](name_of(function))  # of calls that autograd follows
        self._object: tuple[object, ...] = ()  # whose method it is
        update_wrapper(self, function, updated=())

    def __repr__(self) -> str:
        return f"graph.jit({getattr(self.function, '__name__', self.function)})"

    def __get__(self, instance: object, owner: object = None) -> Jitted:
        """As a method. Arrays of its object are read anew if it is a dataclass, as other arguments; else captured."""
        if instance is None:
            return self
        bound = object.__new__(Jitted)
        bound.__dict__ |= {**self.__dict__, "_object": (instance,)}
        return bound

    def __reduce__(self) -> str:
        """Copies are the same object, as those of functions are."""
        return getattr(self.function, "__qualname__", name_of(self.function))

    def __call__(self, *args: object, **kwargs: object) -> PyTree:
        args = (*self._object, *args)
        if TRACES.trace is not None:
            args, kwargs = tree_map(lambda leaf: lifted(leaf) if is_array(leaf) else leaf, (args, kwargs))
            return self.function(*args, **kwargs)
        call = CallArguments(args, kwargs)
        return TORCH.called(self, call) if any(map(is_torch, call.arrays)) else self.run(call)

    def run(self, call: CallArguments) -> PyTree:
        """A call that autograd does not see."""
        return self._traced(call)(call.arrays)

    def explain(self, *args: object, dot: bool = False, **kwargs: object) -> Any:  # with `dot` a text
        """The plan for such arguments: kernels, bytes, operations for each byte, Slang text. `dot`: as text for
        Graphviz.

        It is the plan that calls run. So large products that were not met before on this machine are timed first, with
        kernels that are compiled for it; with SLANGRAD_TUNE=0 nothing is compiled or run."""
        explanation = PlanExplanation(self._traced(CallArguments((*self._object, *args), kwargs)).plan)
        return explanation.dot if dot else explanation

    def _traced(self, call: CallArguments) -> _Traced:
        return self._plans.of(call.key, lambda: _Traced(self, call))


class _Traced:
    """One plan, and the form of the function's result."""

    def __init__(self, jitted: Jitted, call: CallArguments) -> None:
        device = jitted.device or _device_of(call.arrays)
        self._wrap = wrap_of(call.arrays)
        self.result, inputs, outputs = traced(jitted.function, call)
        options = PlanOptions(layouts_of(inputs, call.arrays), **jitted.settings)
        stored = stored_results(outputs)
        self._outputs = [(node, at) for node, (_, at) in zip(outputs, stored, strict=True)]
        self.plan = Plan([base for base, _ in stored], inputs, device, options)

    def __call__(self, arrays: Sequence[ArrayValue]) -> PyTree:
        results = [
            self._wrap(tensor if at is None else tensor.view(at.shape or (1,), at.strides or (1,)), node)
            for tensor, (node, at) in zip(self.plan.run(arrays), self._outputs, strict=True)
        ]
        return results[0] if is_traced(self.result) else filled(self.result, iter(results), is_result)


def traced(function: Function, call: CallArguments) -> tuple[PyTree, list[Node], list[Node]]:
    """The result of a function for such arguments, the inputs in their place, and the nodes of the result. GraphError
    (E1041) if the function keeps a traced array elsewhere."""
    inputs = inputs_of(call.arrays)
    with tracing() as trace:
        args, kwargs = call.of(inputs)
        known = all_leaves((args, kwargs))
        result = function(*args, **kwargs)
    nodes = nodes_in(result)
    trace.refuse_kept((*known, *all_leaves(result)))  # before the copies of arguments are gone
    del args, kwargs, known
    result = renewed(result)
    trace.refuse_kept()
    return result, inputs, nodes


def renewed(tree: PyTree) -> PyTree:
    """A function's result with traced arrays that it does not have."""
    return tree_map(lambda leaf: Array(leaf.node) if is_traced(leaf) else leaf, tree)


def inputs_of(arrays: Sequence[ArrayValue]) -> list[Node]:
    """An input for each array."""
    types = [checked_type(numpy_type(array)) for array in arrays]
    return [new_input(shape_of(x), dtype, str(i)) for i, (x, dtype) in enumerate(zip(arrays, types))]


def layouts_of(inputs: Sequence[Node], arrays: Sequence[ArrayValue]) -> dict[Node, StridedLayout]:
    """How the arrays of inputs lie in memory."""
    return dict(zip(inputs, map(layout_of, arrays), strict=True))


def _device_of(arrays: Sequence[ArrayValue]) -> spy.Device:
    for array in arrays:
        if isinstance(array, spy.Tensor):
            return device_of(array)
    return spy.default_device()


def wrap_of(arrays: Sequence[ArrayValue]) -> Callable[[spy.Tensor, Node], ArrayValue]:
    """Results have the form of the arguments: tensors for tensors, torch's for torch's, else NumPy's."""
    if any(isinstance(array, spy.Tensor) for array in arrays):
        return lambda tensor, node: tensor
    of_torch = [array for array in arrays if is_torch(array)]
    if of_torch:
        return _as_torch if any(array.is_cuda for array in of_torch) else _as_torch_on_the_host
    return lambda tensor, node: host_array(tensor) if node.shape else host_array(tensor)[0]


def _as_torch_on_the_host(tensor: spy.Tensor, node: Node) -> ArrayValue:
    if is_on_host(device_of(tensor)):
        return _as_torch(tensor, node)
    copied: ArrayValue = TORCH.from_numpy(tensor.to_numpy().reshape(node.shape))
    return copied


def _as_torch(tensor: spy.Tensor, node: Node) -> ArrayValue:
    """autograd lets no view be changed in place, so a number is a copy."""
    result = tensor.to_torch()
    return result if node.shape else result.reshape(()).clone()


def settings_of(memory: str | int | None, consistent: str | None) -> Settings:
    """The settings of plans."""
    if consistent not in (None, "bits"):
        raise ValueError(f"consistent must be None or 'bits', not {consistent!r}")
    return {"memory": None if memory is None else bytes_in(memory), "consistent": consistent}


def jit(
    function: Function | None = None,
    *,
    device: spy.Device | None = None,
    memory: str | int | None = None,
    fast_math: bool = False,
    consistent: str | None = None,
) -> Any:  # a Jitted, or what makes one of a function
    """Compile a function of arrays into few kernels. The first call traces it with arrays that have no elements yet;
    later calls run the same plan. Other shapes, dtypes or values beside arrays are traced anew. Without a function,
    the result is a decorator with these settings.

    Arguments and results are arrays (NumPy, Tensor, torch) and dicts, lists, tuples and dataclasses of them. Elements
    are bool, integers, or floats of 16 to 64 bits. Results have the shapes and dtypes that NumPy gives. They are
    Tensors if an argument is one, else torch tensors if one is, else NumPy's arrays. `explain` shows the plan.

    `device`: where kernels run, by default the device of the Tensors among the arguments, or the default one.

    `memory`, such as "2 GiB" or a number of bytes, limits the memory between kernels. Values that do not fit are
    computed again, which takes time and gives the same bits.

    `fast_math`: use rules that give other results for infinities, NaN, zeros and rounding, as log(exp(x)) to x.

    Products of matrices are made by the fastest of Slang and the installed libraries. `consistent="bits"` leaves
    libraries out: then results depend neither on the number of threads nor, for each row, on the number of other rows.
    ValueError for another text.

    A call raises GraphError for unknown functions and dtypes (E1040), where Python needs elements of a traced array
    (E1041), and for shapes that do not fit (E1042). The code is E1043 for arguments and results of other kinds.
    E1047 names the least `memory` that would do.
    """
    settings: Settings = {**settings_of(memory, consistent), "fast_math": fast_math}
    if function is None:
        return lambda f: Jitted(f, device, **settings)
    return Jitted(function, device, **settings)


# --- derivatives


def value_and_grad(function: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Jitted:
    """A function that returns (value, gradient), computed by one plan.

    The function gives one float: an array of one element. `argnums` are the positions of the arguments to derive by:
    one gives one gradient, several give a tuple. A gradient has the form of its argument: the same dicts and lists,
    shapes and dtypes. It has zeros for arrays of integers; values that are no arrays stay the same.

    `has_aux`: the function gives a pair, the number and a tree of arrays, as the state after it; the result is then
    ((value, aux), gradient).

    A call raises GraphError where the result is not one float, where no array of these arguments has floats, and
    for other `argnums` (E1045). An operator without a derivative is E1044; the errors of `jit` occur, too.
    """

    def both(*args: object, **kwargs: object) -> object:
        chosen = _positions(argnums, len(args), function)
        wanted = [args[i] for i in chosen]
        wrt = leaves(wanted, _is_active)
        if not wrt:
            message = f"{name_of(function)}: there are no arrays of floats to differentiate with respect to"
            raise GraphError("E1045", message, "a number of Python's is an array as np.float32(x)")

        aux: object = None

        def derived(fresh: list[Node]) -> list[Node]:
            nonlocal aux
            traced = dict(zip(chosen, filled(wanted, map(Array, fresh), _is_active), strict=True))
            value = function(*(traced.get(i, arg) for i, arg in enumerate(args)), **kwargs)
            output, aux = loss_of(value, function, has_aux)
            return [output, *compute_gradient(output, fresh), *nodes_in(aux)]

        value, *rest = _at(wrt, derived)
        values = iter(rest)
        gradients = tree_map(lambda leaf: next(values) if _is_active(leaf) else _without_slope(leaf), wanted)
        gradient = gradients[0] if hasattr(argnums, "__index__") else tuple(gradients)
        return (value, filled(aux, values, is_result)) if has_aux else value, gradient

    return Jitted(_named(both, function))


def grad(function: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Jitted:
    """A function that returns the gradient alone, with `has_aux` (gradient, aux); see `value_and_grad`."""
    both = value_and_grad(function, argnums, has_aux)

    def gradient(*args: object, **kwargs: object) -> object:
        value, slopes = both.function(*args, **kwargs)
        return (slopes, value[1]) if has_aux else slopes

    return Jitted(_named(gradient, function))


def jvp(function: Function, primals: Sequence[object], tangents: Sequence[object]) -> PyTree:
    """Forward mode: (value, tangent), the result of the function and its derivative along tangents.

    `primals` is a tuple of the arguments, and `tangents` has the same form, shapes and dtypes, which are floats. The
    value and the tangent have the form of the function's result. Each call traces the function; a jitted function that
    calls `jvp` does so once.

    GraphError (E1043) where primals or tangents are no tuple, (E1042) where their forms, shapes or dtypes differ,
    (E1045) for primals of integers, and the errors of `jit`.
    """
    if not isinstance(primals, list | tuple) or not isinstance(tangents, list | tuple):
        raise GraphError("E1043", "jvp: primals and tangents are tuples, of one for each argument", "(x,)")
    arguments = tree_map(lambda leaf: np.float64(leaf) if type(leaf) is float else leaf, (primals, tangents))
    along = Jitted(_named(lambda p, t: _jvp(function, p, t), function))
    return along(*map(tuple, arguments))


def _jvp(function: Function, primals: Sequence[object], tangents: Sequence[object]) -> object:
    if form_of(primals, is_traced) != form_of(tangents, is_traced):
        raise GraphError("E1042", f"{name_of(function)}: primals and tangents are trees of other forms")
    old, along = leaves(primals, is_traced), leaves_like(tangents, primals, is_traced)
    if [(x.shape, x.dtype) for x in old] != [(x.shape, x.dtype) for x in along]:
        raise GraphError("E1042", f"{name_of(function)}: primals and tangents have other shapes or dtypes")
    if not old or not all(map(_is_active, old)):
        raise GraphError("E1045", f"{name_of(function)}: primals are floats", "x.astype(float)")
    form: object = None

    def derived(fresh: list[Node]) -> list[Node]:
        nonlocal form
        form = function(*filled(primals, map(Array, fresh), is_traced))
        outputs = [lifted(leaf).node for leaf in leaves(form, is_value)]
        return [*outputs, *(compute_tangent(output, fresh, [x.node for x in along]) for output in outputs)]

    results = iter(_at(old, derived))  # values, then tangents
    return filled(form, results, is_value), filled(form, results, is_value)


def pullback(
    function: Function, xs: Sequence[Array], wanted: Sequence[int], cotangents: Sequence[Array]
) -> list[Array]:
    """Gradients of inputs of a function that gives a list of arrays. `cotangents`: those of its results of floats."""

    def derived(fresh: list[Node]) -> list[Node]:
        arguments = dict(enumerate(xs)) | dict(zip(wanted, map(Array, fresh), strict=True))
        outputs = [y for y in map(lifted, function(*arguments.values())) if y.dtype.kind == "f"]
        total = add_all([(y * g).sum() for y, g in zip(outputs, cotangents, strict=True)])
        return compute_gradient(total.node, fresh)

    return _at([xs[i] for i in wanted], derived)


def _at(xs: Sequence[Array], derived: Callable[[list[Node]], list[Node]]) -> list[Array]:
    """The result of `derived` for fresh inputs, at the values xs."""
    fresh = [new_input(x.shape, x.dtype, "wrt") for x in xs]
    values = dict(zip(fresh, (x.node for x in xs), strict=True))
    return [Array(output) for output in substituted(derived(fresh), values)]


def _without_slope(leaf: object) -> object:
    """The leaf of a gradient for a leaf without one: zeros for an array of integers, else the same value."""
    return np.zeros_like(leaf) if is_traced(leaf) else leaf


def _is_active(leaf: object) -> TypeGuard[Array]:
    return is_traced(leaf) and leaf.dtype.kind == "f"


@explained("argnums")
def _positions(argnums: int | Sequence[int], count: int, function: Function) -> list[int]:
    """The chosen ones of `count` arguments; negative numbers count from the last."""
    wanted = [argnums] if isinstance(argnums, SupportsIndex) else argnums
    positions = [operator.index(i) + (count if i < 0 else 0) for i in wanted]
    if len(set(positions)) < len(positions) or not all(0 <= i < count for i in positions):
        message = f"{name_of(function)}: argnums={argnums!r} of {count} positional arguments"
        raise GraphError("E1045", message, "argnums are different positions of arguments")
    return positions


def loss_of(result: object, function: Function, has_aux: bool) -> tuple[Node, object]:
    """The result of a function: the number to differentiate, and with `has_aux` the tree beside it."""
    value, aux = result, None
    if has_aux:
        if not isinstance(result, tuple | list) or len(result) != 2:
            description = f"{len(result)} values" if isinstance(result, tuple | list) else _described(result)
            message = (
                f"{name_of(function)} gives {description}, and with has_aux=True a function gives a pair"
            )
            raise GraphError("E1045", message, "return loss, aux")
        value, aux = result
    value = lifted(value) if is_value(value) else value
    if not _is_active(value) or value.size != 1:
        message = f"{name_of(function)} gives {_described(value)}, and a gradient is that of one float"
        is_pair = isinstance(value, tuple | list) and not has_aux
        advice = "has_aux=True for a function that gives (loss, aux)" if is_pair else "sum or mean the result"
        raise GraphError("E1045", message, advice)
    return value.reshape(()).node, aux


def _described(value: object) -> str:
    return repr(value) if is_traced(value) else type(value).__name__


def nodes_in(tree: object) -> list[Node]:
    """The arrays of a function's result, in order, as `results_in`."""
    return [lifted(array).node for array in results_in(tree)]


def name_of(function: object) -> str:
    return getattr(function, "__name__", repr(function))


def _named(wrapper: Function, function: Function) -> Function:
    return update_wrapper(wrapper, function, updated=())
