"""Files of precompiled modules: what comes back, and that nothing else is taken for one."""

from pathlib import Path

import pytest

from slangrad.base import module_file
from slangrad.base.module_file import Lookup, ModuleFileError, Origin, from_bytes, packed, to_bytes
from slangrad.base.source import SourceFile

MAIN = SourceFile("lib/a.slang", '#include "b.h"\nfloat é() { return 1; }')
BESIDE = SourceFile("lib/inc/b.h", "#define B 1\r\n\n")
ELSEWHERE = SourceFile("/opt/b.h", "")
ORIGIN = Origin(
    MAIN,
    Path("lib/a.slang"),
    (
        Lookup("included", "b.h", "lib/a.slang", "1"),
        Lookup("included", "/opt/b.h", "lib/inc/b.h", "2"),
        Lookup("included", "trigonometry", "lib/a.slang", "3"),
        Lookup("module", "helper", "lib/a.slang", "4"),
    ),
    {"1": BESIDE, "2": ELSEWHERE, "3": SourceFile("std/trigonometry.slang", "of every version")},
    (("N", "4"), ("FLAG", "")),
)


def test_a_module_comes_back() -> None:
    found = from_bytes(to_bytes(packed(ORIGIN)))
    assert found.texts == (("a.slang", MAIN.text), ("inc/b.h", BESIDE.text), ("b.h", ""))
    assert found.meanings == {("included", "b.h", 0): 1, ("included", "/opt/b.h", 1): 2}
    assert (found.macros, found.imports) == (ORIGIN.macros, ("helper",))


def test_no_damage_goes_unnoticed() -> None:
    data = to_bytes(packed(ORIGIN))
    for end in range(len(data)):
        with pytest.raises(ModuleFileError, match=r"is cut off|is no precompiled module|is damaged"):
            from_bytes(data[:end])
    for at in range(len(data)):
        with pytest.raises(ModuleFileError):
            from_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is no precompiled module"),
        (b"float f() { return 1; }", "is no precompiled module"),
        (b"RIFF\x10\0\0\0SLmc", "was made by Slang's own compiler"),
        (b"slangrad module 2 0 \n", "is of form 2; this version of slangrad reads form 1"),
        (b"slangrad module 1 99999999999999999999 0\n", "is cut off"),
    ],
)
def test_other_files(data: bytes, message: str) -> None:
    with pytest.raises(ModuleFileError, match=message):
        from_bytes(data)


@pytest.mark.parametrize(
    "records",
    [
        b"",
        b"text 1 1\na\n",
        b"text 1 -1\na\n\n",
        b"text 1 999999999999\na\n\n",
        b"text 1 1\na\n\xff\n",
        b"text 5 0\n../..\n\n",
        b"text 4 0\n/etc\n\n",
        b"text 0 0\n\n\n",
        b"text 1 0\na\n\ntext 1 0\na\n\n",
        b"text 1 0\na\n\nfound 1 1 1 1\nm\nb\n0\n1\n",
        b"text 1 0\na\n\nother 1\nb\n",
    ],
)
def test_records_that_nobody_wrote(records: bytes) -> None:
    """The digest is right, and what it is the digest of is not."""
    header = b"slangrad module 1 %d %s\n" % (len(records), module_file._digest(records))
    with pytest.raises(ModuleFileError, match="is damaged"):
        from_bytes(header + records)
