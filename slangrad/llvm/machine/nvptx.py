"""LLVM text to PTX, for the GPUs in a table.

    ptx(text, "sm_90")                   PTX with one entry

LLVM ends the process at an unknown architecture or version of PTX, so both come from the table.
"""

from __future__ import annotations

from functools import cache

import llvmlite.binding as llvm

from slangrad.llvm.machine.native import BackEndError

TRIPLE = "nvptx64-nvidia-cuda"

# The version of PTX for each architecture: the first that has it, and 8.1 at least, for parameters of up to 32 KB.
# fmt: off
ARCHITECTURES = {
    "sm_75": "81", "sm_80": "81", "sm_86": "81", "sm_87": "81", "sm_89": "81", "sm_90": "81",
    "sm_100": "86", "sm_120": "87",
}
# Bytes of shared memory that a block may ask for.
SHARED_BYTES = {
    "sm_75": 64 << 10, "sm_80": 163 << 10, "sm_86": 99 << 10, "sm_87": 163 << 10, "sm_89": 99 << 10, "sm_90": 227 << 10,
    "sm_100": 227 << 10, "sm_120": 99 << 10,
}
# fmt: on


@cache
def _machine(architecture: str, optimize: int) -> llvm.TargetMachine:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(TRIPLE).create_target_machine(
        cpu=architecture,
        features=f"+ptx{ARCHITECTURES[architecture]}",
        opt=optimize,
        jit=False,
        reloc="default",
        codemodel="default",
    )


def ptx(text: str, architecture: str, optimize: int = 2) -> str:
    """The module's code as PTX."""
    machine = _machine(architecture, optimize)
    try:
        module = llvm.parse_assembly(text)
        module.triple, module.data_layout = TRIPLE, str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise BackEndError(f"LLVM refused the text of a kernel: {error}") from None
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    code: str = machine.emit_assembly(module)
    return code
