"""`Function.dispatch`: a function as a kernel, launched over threads independent of shapes.

    void scale(uint3 dispatchThreadID, RWTensor<float, 1> x, float by)

    module.scale.dispatch(uint3(100, 1, 1), x=tensor, by=2.0)   ->   a kernel that calls scale(thread, x, by)

A function that is an entry point itself is launched directly.
"""

from __future__ import annotations

from collections.abc import Sequence

from slangrad.api.kernels.kernel import ComputeKernel
from slangrad.api.kernels.shader import (
    SlangEntryPoint,
    SlangModule,
    TypeConformance,
    conformances_of,
    is_entry,
)
from slangrad.base.page_words import unlike
from slangrad.call.binding.call_request import Named
from slangrad.call.binding.program import CallCandidate
from slangrad.check.reflect import ParameterView
from slangrad.marshal.errors import CallError
from slangrad.marshal.protocol.spelling import spell_on_page

THREAD = "dispatchThreadID"
GROUP = (32, 1, 1)

Group = tuple[int, int, int]


def make_kernel(
    module: SlangModule,
    name: str,
    candidates: tuple[CallCandidate, ...],
    group: Group | None,
    conformances: tuple[Named, ...],
) -> ComputeKernel:
    """The kernel of a function."""
    chosen = conformances_of(conformances)
    if len(candidates) != 1:
        raise _refused(
            name, f"has {len(candidates)} overloads", "give the one that is launched a name of its own"
        )
    (candidate,) = candidates
    session = module.session
    if is_entry(candidate.view.declaration):
        if group is not None:
            raise _refused(name, "has the group size of its [numthreads]", "leave thread_group_size out")
        entry = SlangEntryPoint(module, name, conformances=chosen, declared=candidate.view.declaration)
        return ComputeKernel(session.link_program([module], [entry]))
    _check(name, candidate)
    text = _page(module.known.imports(), candidate, group or GROUP)
    page = session.page(f"launch of {name} {group or ''}", text)
    entry = page.entry_point(_entry_of(candidate), chosen)
    return ComputeKernel(session.link_program([module, page], [entry]), name)


def named_conformances(conformances: Sequence[TypeConformance | tuple[object, ...]]) -> tuple[Named, ...]:
    return tuple(conformance.named for conformance in conformances_of(conformances))


def _check(name: str, candidate: CallCandidate) -> None:
    if candidate.returns:
        raise _refused(name, "has a return value", "a kernel writes what it computes to memory")
    if not candidate.parameters or candidate.has_this:
        raise _refused(name, f"has no thread id: the first parameter must be a thread id 'uint3 {THREAD}'")
    first, *others = candidate.parameters
    if first.name != THREAD:
        raise _refused(
            name, f"begins with '{first.name}': the first parameter must be a thread id 'uint3 {THREAD}'"
        )
    for parameter in others:
        _check_parameter(name, parameter)


def _check_parameter(name: str, parameter: ParameterView) -> None:
    if parameter.direction != "in":
        raise _refused(name, f"has out or inout parameters: '{parameter.name}'", "pass a buffer or a tensor")
    if parameter.type.abstract or str(parameter.type).startswith("$"):
        raise _refused(
            name, f"is generic: the type of '{parameter.name}' is not known", "write a concrete type"
        )


def _refused(name: str, reason: str, note: str | None = None) -> CallError:
    return CallError("E1020", f"dispatch: function '{name}' {reason}", (), note)


def _entry_of(candidate: CallCandidate) -> str:
    return unlike("launch", {candidate.view.name})


def _page(imports: tuple[str, ...], candidate: CallCandidate, group: Group) -> str:
    """The text of a kernel around the function."""
    thread, *others = candidate.parameters
    number = unlike("thread", {parameter.name for parameter in others})
    declared = [f"{spell_on_page(thread.type)} {number} : SV_DispatchThreadID"]
    declared += [f"uniform {spell_on_page(parameter.type)} {parameter.name}" for parameter in others]
    passed = ", ".join([number, *(parameter.name for parameter in others)])
    return "\n".join([
        *(f'import "{name}";' for name in imports),
        f'[shader("compute")] [numthreads({group[0]}, {group[1]}, {group[2]})]',
        f"void {_entry_of(candidate)}({', '.join(declared)})",
        "{",
        f"    ::{candidate.view.name}({passed});",
        "}",
    ])  # fmt: skip
