"""LLVM text to machine code for a CPU, and machine code to addresses. The only file that uses llvmlite.

    target = target_of(options)                       this machine, or what Options.cpu names
    code = object_code(text, target, optimize=2)      bytes of an object file, position-independent
    load(code, ("entry", "drain"))                    addresses, and an object that keeps them valid

LLVM ends the process at a fatal error, so text is parsed and verified first, and tests run unproved cases in a
child process.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import astuple
from functools import cache
from itertools import count

import llvmlite.binding as llvm

from slangrad.base.options import Options
from slangrad.base.process.forks import LIBRARY, kept_at_fork
from slangrad.llvm.machine.cpu_names import check_cpu
from slangrad.llvm.machine.target import FUNCTION_ATTRIBUTES, LANES, Features, TargetMachine

_PROBES = """
define <4 x float> @probe_half(<4 x half> %x) #0 {
  %r = fpext <4 x half> %x to <4 x float>
  ret <4 x float> %r
}
define <8 x half> @probe_half_arithmetic(<8 x half> %x) #0 {
  %r = fadd <8 x half> %x, %x
  ret <8 x half> %r
}
define double @probe_fma(double %x) #0 {
  %r = call double @llvm.fma.f64(double %x, double %x, double %x)
  ret double %r
}
define <16 x i32> @probe_add(<16 x i32> %x) #0 {
  %r = add <16 x i32> %x, %x
  ret <16 x i32> %r
}
declare double @llvm.fma.f64(double, double, double)
"""


# llvmlite has one lock for all that LLVM does, and no public name for it.
_lock = getattr(getattr(llvm.ffi.lib, "_lock", None), "_lock", None)
if _lock is not None:
    kept_at_fork(_lock, LIBRARY)


class BackEndError(Exception):
    """LLVM refused the text of a kernel, or has no such target."""


@cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@cache
def _initialize_all() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def llvm_version() -> str:
    return ".".join(map(str, llvm.llvm_version_info))


@cache
def target_of(options: Options) -> TargetMachine:
    """The machine that code is made for. The code runs here, so its features must be among those of this
    machine."""
    _initialize()
    lanes = options.lanes
    if lanes not in (0, *LANES):
        raise ValueError(f"{lanes} lanes (SLANGRAD_LANES): {', '.join(map(str, LANES))} are possible, or 0")
    triple, flags = llvm.get_process_triple(), llvm.get_host_cpu_features().flatten()
    host = describe_target(triple, llvm.get_host_cpu_name(), flags, lanes)
    if options.cpu in ("", "native"):
        return host
    check_cpu(options.cpu, triple)
    named = describe_target(triple, options.cpu, "", lanes)
    if any(theirs and not ours for theirs, ours in zip(astuple(named.features), astuple(host.features))):
        raise ValueError(f"this machine cannot run code for {options.cpu} (SLANGRAD_CPU); it is a {host.cpu}")
    return named


def describe_target(triple: str, cpu: str, flags: str = "", lanes: int = 0) -> TargetMachine:
    """Features of the machine, from LLVM's code for three small functions."""
    if triple != llvm.get_process_triple():
        _initialize_all()
    plain = TargetMachine(triple, cpu, flags, 1, Features(True, True, True, True, True))
    text = assembly(_PROBES + FUNCTION_ATTRIBUTES, plain)
    wide = "ymm" in text or "zmm" in text
    features = Features(
        half="__extendhfsf2" not in text and "__gnu_h2f" not in text,
        fma=re.search(r"\bfma(@PLT)?$", text, re.MULTILINE) is None,
        masked_loads=wide,
        masked_stores="zmm" in text,
        mask_registers="zmm" in text,
        half_arithmetic=re.search(r"\bvaddph\b|\bfadd\s+v\d+\.8h", text) is not None,
    )
    return TargetMachine(triple, cpu, flags, lanes or (16 if wide else 8), features)


def object_code(text: str, target: TargetMachine, optimize: int = 2) -> bytes:
    machine = _machine(target, optimize)
    code: bytes = machine.emit_object(_optimized(text, target, machine))
    return code


def assembly(text: str, target: TargetMachine, optimize: int = 2) -> str:
    machine = _machine(target, optimize)
    listing: str = machine.emit_assembly(_optimized(text, target, machine))
    return listing


@cache
def _machine(target: TargetMachine, optimize: int) -> llvm.TargetMachine:
    _initialize()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.flags, opt=optimize, reloc="pic", codemodel="small", jit=False
    )


def _optimized(text: str, target: TargetMachine, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """Parsed, verified and cleaned. The code is in SSA form already, so a few passes are enough."""
    try:
        module = llvm.parse_assembly(text)
        module.triple = target.triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise BackEndError(f"LLVM refused the text of a kernel: {error}") from None
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    passes = llvm.create_new_module_pass_manager()
    passes.add_dead_arg_elimination_pass()  # most functions need little of the context of a thread
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_aggressive_dce_pass()
    passes.run(module, builder)
    return module


@cache
def _jit() -> llvm.LLJIT:
    _initialize()
    return llvm.create_lljit_compiler(use_jit_link=False)


_numbers = count()


def load(code: bytes, names: Sequence[str]) -> tuple[dict[str, int], object]:
    """Machine code of this process's target in executable memory: addresses, valid as long as the object lives."""
    library = llvm.JITLibraryBuilder().add_object_img(code)
    for name in names:
        library.export_symbol(name)
    resource = library.link(_jit(), f"kernel{next(_numbers)}")
    return {name: resource[name] for name in names}, resource
