"""`native(text)` compiles LLVM text that defines `@entry`, and adds `@drain` and `@share`, which every kernel has."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import llvmlite.binding as llvm
import pytest

from slangrad.llvm.cpu import SHARE
from slangrad.runtime.cpu import NativeKernel

COMMON = """
declare i32 @usleep(i32)

; the threads [begin, end) of x that a chunk covers, in a grid with one row
define internal { i64, i64 } @threads_of(ptr %launch, i64 %chunk) alwaysinline {
  %nx = load i64, ptr %launch
  %chunk_x.p = getelementptr i8, ptr %launch, i64 24
  %chunk_x = load i64, ptr %chunk_x.p
  %begin = mul i64 %chunk, %chunk_x
  %full = add i64 %begin, %chunk_x
  %inside = icmp slt i64 %full, %nx
  %end = select i1 %inside, i64 %full, i64 %nx
  %a = insertvalue { i64, i64 } poison, i64 %begin, 0
  %b = insertvalue { i64, i64 } %a, i64 %end, 1
  ret { i64, i64 } %b
}

define void @drain(ptr %arguments, ptr %launch, i64 %limit) {
start:
  %chunks.p = getelementptr i8, ptr %launch, i64 40
  %chunks = load i64, ptr %chunks.p
  %shared.p = getelementptr i8, ptr %launch, i64 48
  %shared = load ptr, ptr %shared.p
  %stop.p = getelementptr i8, ptr %shared, i64 8
  br label %test
test:
  %left = phi i64 [ %limit, %start ], [ %left.next, %run ]
  %stop = load atomic i32, ptr %stop.p monotonic, align 4
  %stopped = icmp ne i32 %stop, 0
  %enough = icmp sle i64 %left, 0
  %leave = or i1 %stopped, %enough
  br i1 %leave, label %done, label %take
take:
  %chunk = atomicrmw add ptr %shared, i64 1 monotonic
  %there = icmp slt i64 %chunk, %chunks
  br i1 %there, label %run, label %done
run:
  call void @entry(ptr %arguments, ptr %launch, i64 %chunk)
  %left.next = sub i64 %left, 1
  br label %test
done:
  ret void
}
"""


@pytest.fixture(scope="session", autouse=True)
def _target() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@pytest.fixture
def native() -> Iterator[Callable[..., NativeKernel]]:
    engines = []

    def compile_kernel(
        text: str, *, drain: bool = True, delayed: bool = False, **settings: object
    ) -> NativeKernel:
        module = llvm.parse_assembly(text + COMMON + SHARE.replace(" #0", ""))
        module.verify()
        machine = llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True)
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
        engines.append(engine)
        kernel = NativeKernel(
            entry=engine.get_function_address("entry"),
            drain=engine.get_function_address("drain") if drain else 0,
            share=engine.get_function_address("share") if drain else 0,
            **{"name": "kernel", "argument_size": 0, **settings},
        )
        if not delayed:
            return kernel
        plan, reduce = map(engine.get_function_address, ("plan", "reduce"))
        return replace(kernel, plan=plan, reduce=reduce, fallback=kernel)

    yield compile_kernel
    engines.clear()
