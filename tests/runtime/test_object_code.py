"""Object files of LLVM, loaded by the own loader: code that runs, and what is refused."""

import ctypes
import platform
from struct import pack_into, unpack_from

import llvmlite.binding as llvm
import pytest

from slangrad.runtime.object_code import is_loadable_here, load_object
from slangrad.runtime.relocations import AARCH64, APPLY, Unloadable

pytestmark = pytest.mark.skipif(not is_loadable_here(), reason="the portable loader serves here")

TABLES = """
@table = internal constant [4 x i32] [i32 10, i32 20, i32 30, i32 40], align 16
@functions = internal constant [2 x ptr] [ptr @first, ptr @second], align 8
@counter = internal global i32 5, align 4
@cleared = internal global [100 x i32] zeroinitializer, align 64

define internal i32 @first(i32 %i) noinline {
  %p = getelementptr [4 x i32], ptr @table, i32 0, i32 %i
  %v = load i32, ptr %p
  ret i32 %v
}
define internal i32 @second(i32 %i) noinline {
  %v = add i32 %i, 1000
  ret i32 %v
}
define i32 @entry(i32 %which, i32 %i) {
  %p = getelementptr [2 x ptr], ptr @functions, i32 0, i32 %which
  %f = load ptr, ptr %p
  %r = call i32 %f(i32 %i)
  ret i32 %r
}
define i32 @count() {
  %old = load i32, ptr @counter
  %new = add i32 %old, 1
  store i32 %new, ptr @counter
  %p = getelementptr [100 x i32], ptr @cleared, i32 0, i32 %new
  %zero = load i32, ptr %p
  %r = add i32 %zero, %new
  ret i32 %r
}
"""


def object_file(text: str, triple: str = "") -> bytes:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(text)
    target = llvm.Target.from_triple(triple or llvm.get_process_triple())
    machine = target.create_target_machine(reloc="pic", codemodel="small", jit=False)
    found: bytes = machine.emit_object(module)
    return found


def test_code_tables_and_variables() -> None:
    loaded = load_object(object_file(TABLES), ("entry", "count"))
    entry = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int)(loaded.addresses["entry"])
    assert [entry(0, i) for i in range(4)] == [10, 20, 30, 40]
    assert entry(1, 7) == 1007
    count = ctypes.CFUNCTYPE(ctypes.c_int)(loaded.addresses["count"])
    assert [count(), count(), count()] == [6, 7, 8]


def test_each_load_has_variables_of_its_own() -> None:
    code = object_file(TABLES)
    loads = [load_object(code, ("count",)) for _ in range(2)]
    counts = [ctypes.CFUNCTYPE(ctypes.c_int)(each.addresses["count"]) for each in loads]
    assert [counts[0](), counts[0](), counts[1]()] == [6, 7, 6]


def test_a_symbol_from_outside_is_left_to_the_portable_loader() -> None:
    text = "declare i32 @usleep(i32)\ndefine i32 @entry(i32 %x) {\n%r = call i32 @usleep(i32 %x)\nret i32 %r\n}\n"
    with pytest.raises(Unloadable, match="a symbol from outside"):
        load_object(object_file(text), ("entry",))


def test_a_function_that_is_not_there() -> None:
    with pytest.raises(Unloadable, match="no function 'drain'"):
        load_object(object_file(TABLES), ("entry", "drain"))


def test_code_for_another_machine_is_refused() -> None:
    other = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    with pytest.raises(Unloadable, match="another machine"):
        load_object(object_file(TABLES, f"{other}-unknown-linux-gnu"), ("entry",))


@pytest.mark.parametrize("code", [b"", b"\x7fELF", b"no object file", bytes(64)])
def test_damaged_files_are_refused(code: bytes) -> None:
    with pytest.raises(Unloadable):
        load_object(code, ("entry",))


def field(word: int, low: int, count: int) -> int:
    return word >> low & (1 << count) - 1


def test_addresses_in_instructions_of_arm() -> None:
    memory = bytearray(16)
    pack_into("<4I", memory, 0, 0x90000000, 0x91000000, 0x94000000, 0x3DC00000)
    target, place = 0x7FFF_1234_5670, 0x7FFF_1230_0FF8
    APPLY[AARCH64, 275](memory, 0, target, place)
    APPLY[AARCH64, 277](memory, 4, target, place + 4)
    APPLY[AARCH64, 283](memory, 8, target, place + 8)
    APPLY[AARCH64, 299](memory, 12, target, place + 12)
    page, within, call, load = unpack_from("<4I", memory)
    pages = field(page, 5, 19) << 2 | field(page, 29, 2)
    assert ((place >> 12) + pages << 12) + field(within, 10, 12) == target
    assert place + 8 + 4 * field(call, 0, 26) == target
    assert 16 * field(load, 10, 12) == target & 0xFFF
    assert (page & 0x9F00001F, within & 0xFFC003FF) == (0x90000000, 0x91000000)


def test_a_branch_too_far_is_refused() -> None:
    with pytest.raises(Unloadable, match="too far"):
        APPLY[AARCH64, 283](bytearray(4), 0, 1 << 30, 0)
