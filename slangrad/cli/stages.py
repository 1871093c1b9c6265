"""`slangrad dump`: a function on its way to machine code, stage by stage, in color.

    // after stage 'lowered'
    func @polynomial(%a: f32, ...

In: a function.   Out: an example call of it is compiled, and shown as text, in color on a terminal. Its arguments
follow from the types of the parameters: numbers and structs become a tensor of four, so the function is called four
times; integers beside whole tensors are indices. Values do not matter: the call does not run.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.syntax import Syntax

import slangrad
from slangrad import Device, Function, Module, SlangType, Tensor
from slangrad.base.options import Options
from slangrad.cli import dump_html
from slangrad.explanation import costs_table
from slangrad.llvm.machine import native
from slangrad.pipeline import CompiledKernel, compile_entry_point

LEXERS = {"kernel": "hlsl", "ast": "text", "asm": "gas"}
DEFAULT = "clean"


def compile_function(device: Device, path: str, name: str, mode: str, uniform: list[str]) -> CompiledKernel:
    """A kernel of the file, or the kernel of an example call of a function."""
    entries = {entry.name: entry for entry in device.load_module(path).entry_points}
    if name not in entries:
        return compile_example(load_function(device, path, name), mode, uniform)
    if mode != "call" or uniform:
        raise ValueError(f"error: '{name}' is a kernel: --fwd, --bwd and --uniform are for functions")
    compiler = device.slang_session.compiler
    return compile_entry_point(compiler.program, entries[name].reference, compiler.options, compiler.target)


def load_function(device: Device, path: str, name: str) -> Function:
    """A function of a file. Modules are looked for beside the file, too."""
    try:
        return Module.load_from_file(device, path).require_function(name)
    except AttributeError as missing:
        raise ValueError(str(missing)) from None


def write_page(path: Path, compiled: CompiledKernel, name: str, mode: str) -> None:
    title = {"call": name, "fwds": f"fwd_diff({name})", "bwds": f"bwd_diff({name})"}[mode]
    machine = native.target_of(Options.from_environment())
    columns = dump_html.write_page(path, compiled, title, f"{machine.cpu}, {machine.lanes} lanes")
    print(f"{path}: {columns} columns")


def compile_example(function: Function, mode: str, uniform: list[str]) -> CompiledKernel:
    """The kernel of an example call of the function; mode is "call", "fwds" or "bwds"."""
    arguments = example_arguments(function, mode, uniform)
    chosen = {"call": function, "fwds": function.fwds, "bwds": function.bwds}[mode]
    compiled: CompiledKernel = chosen.compile(**arguments)
    return compiled


def chosen_stages(compiled: CompiledKernel, after: str, everything: bool) -> tuple[str, ...]:
    """All stages, one, or by default the code before aggregates are taken apart."""
    if after and after not in compiled.stages:
        raise ValueError(f"error: there is no stage '{after}'; stages are: {', '.join(compiled.stages)}")
    return compiled.stages if everything else (after or DEFAULT,)


def show(console: Console, compiled: CompiledKernel, stages: tuple[str, ...], times: bool) -> None:
    for stage in stages:
        show_text(console, f"// after stage '{stage}'", "hlsl")
        show_text(console, compiled.text(stage).rstrip() + "\n", LEXERS.get(stage, "llvm"))
    if times:
        print(costs_table(compiled.costs))


def show_text(console: Console, text: str, lexer: str) -> None:
    """Bypasses the console if that would break long lines."""
    if console.is_terminal:
        console.print(Syntax(text, lexer, background_color="default", word_wrap=True))
    else:
        console.file.write(text + "\n")


SIZE = 4
INDICES = ("int", "uint", "vector<int", "vector<uint")


def example_arguments(function: Function, mode: str, uniform: list[str]) -> dict[str, object]:
    """Arguments by name; parameters named in `uniform` get one value for all calls."""
    device = function.module.device
    parameters = function.parameters
    unknown = set(uniform) - {parameter.name for parameter in parameters}
    if unknown:
        raise ValueError(f"error: '{function.name}' has no parameter '{min(unknown)}'")
    indexed = any(tensor_rank(parameter.type) is not None for parameter in parameters)
    arguments: dict[str, object] = {}
    for parameter in parameters:
        if parameter.name in uniform:
            arguments[parameter.name] = one_value(parameter.type)
        elif indexed and is_index(parameter.type):
            arguments[parameter.name] = slangrad.grid(
                (SIZE,) * max(len(parameter.type.shape), 1, sum(parameter.type.shape))
            )
        else:
            arguments[parameter.name] = many_values(
                device, parameter.type, mode, parameter.direction == "inout"
            )
    if mode == "bwds" and function.result is not None and function.result.differentiable:
        arguments["_result"] = with_gradients(Tensor.zeros(device, (SIZE,), function.result))
    return arguments


def one_value(kind: SlangType) -> object:
    """A number, or numbers in lists; fields by name."""
    if kind.shape:
        return [one_value(kind.element_type)] * kind.shape[0]
    if kind.fields:
        return {name: one_value(field.type) for name, field in kind.fields.items()}
    return 1


def many_values(device: object, kind: SlangType, mode: str, separate: bool) -> object:
    """A tensor of elements of this type, or a whole tensor or buffer for a parameter that takes one."""
    rank = tensor_rank(kind)
    if rank is not None:
        tensor = Tensor.zeros(device, (SIZE,) * rank, element_of(kind))
        gradients = "Diff" in kind.base_name and not (kind.base_name.startswith("I") and mode != "bwds")
        return with_gradients(tensor, "RW" in kind.base_name) if gradients else tensor
    if kind.base_name.endswith("Buffer"):
        return Tensor.zeros(device, (SIZE,), element_of(kind)).storage
    if kind.ir_type is None and kind.fields:
        return {name: many_values(device, field.type, mode, separate) for name, field in kind.fields.items()}
    if kind.ir_type is None:
        raise ValueError(
            f"error: a value of type '{kind}' cannot be made up: name an instance, such as 'f<float>'"
        )
    tensor = Tensor.zeros(device, (SIZE,), kind)
    return with_gradients(tensor, separate) if mode != "call" and kind.differentiable else tensor


def with_gradients(tensor: Tensor, separate: bool = False) -> Tensor:
    """An argument that is read and written needs an incoming and an outgoing gradient."""
    differentiable = tensor.with_grads()
    return (
        differentiable.with_grads(
            grad_in=differentiable.grad, grad_out=Tensor.zeros_like(differentiable.grad)
        )
        if separate
        else differentiable
    )


def tensor_rank(kind: SlangType) -> int | None:
    """The number of dimensions of a parameter that takes a whole tensor."""
    if not kind.base_name.endswith("Tensor") or len(kind.arguments) != 2:
        return None
    rank = kind.arguments[1]
    return rank if isinstance(rank, int) else 1


def element_of(kind: SlangType) -> object:
    """The element type of a tensor or buffer; float where it is generic, bytes where there is none."""
    element = kind.arguments[0] if kind.arguments else "uint8_t"
    return "float" if isinstance(element, SlangType) and element.ir_type is None else element


def is_index(kind: SlangType) -> bool:
    return kind.name.startswith(INDICES)
