"""Reports of kernels: index errors, failed assertions, exhausted memory, printed text.

In: the number of a site in the kernel's table, and numbers recorded at run time.
Out: a Python exception that shows the place, or text for `sys.stdout`:

    error[E0901]: index 7 is out of range: there are 4 elements
      --> poly.slang:3:13
    3 |     return x[i];
      |              ^

A site holds strings only, so a table of sites can be stored beside machine code.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from slangrad.base.diagnostics import CODES
from slangrad.base.lazy import LazyModule
from slangrad.base.options import (
    ANYWHERE,
    CONVERTED,
    FIRST_PAGE,
    NOT_FINITE,
    POINTER,
    RECURSION_DEPTH,
    TYPE_OF_VALUE,
    limit_note,
)
from slangrad.base.source import Span, excerpt

if TYPE_CHECKING:
    from slangrad.base.prints.formats import Value

FORMATS = LazyModule("slangrad.base.prints.formats")

NO_ERROR, BOUNDS, OUT_OF_MEMORY, ASSERTION = range(4)


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the source that can report. `text` is a print's format, an assertion's message, or the name of a
    check of `in_bounds` that is not about an index."""

    location: str = ""
    excerpt: str = ""
    text: str = ""

    @staticmethod
    def at(span: Span | None, text: str = "") -> Site:
        if span is None:
            return Site(text=text)
        return Site(span.location, excerpt(span), text)


@dataclass(frozen=True, slots=True)
class LaunchFailure:
    """The status record of a launch, read back."""

    error: int
    site: int
    index: int = 0
    extent: int = 0


class KernelReport(Exception):
    """The base of errors that a kernel reports: its name, and the place in the source."""

    code: str

    def __init__(self, kernel: str, site: Site, message: str, note: str = "") -> None:
        self.kernel = kernel
        self.location = site.location
        super().__init__(describe(self.code, message, site, f"in kernel '{kernel}'{note}"))


class BoundsError(KernelReport, IndexError):
    """A kernel used an index out of range. Reads gave zero and writes were dropped."""

    code = "E0901"

    def __init__(self, kernel: str, site: Site, index: int, extent: int) -> None:
        self.index = index
        self.extent = extent
        elements = "is 1 element" if extent == 1 else f"are {extent} elements"
        message = f"index {index} is out of range: there {elements}"
        super().__init__(kernel, site, message, "; the read gave 0 or the write was dropped")


class KernelAssertionError(KernelReport, AssertionError):
    """An assertion in a kernel failed."""

    code = "E0903"

    def __init__(self, kernel: str, site: Site) -> None:
        super().__init__(kernel, site, site.text or "assertion failed")


class KernelRecursionError(KernelReport, RecursionError):
    """Functions in a kernel called themselves too deep."""

    code = "E0904"

    def __init__(self, kernel: str, site: Site, depth: int) -> None:
        message = f"functions that call themselves are more than {depth} calls deep"
        super().__init__(kernel, site, message, f"; {limit_note(RECURSION_DEPTH)}")


class KernelTypeError(KernelReport, TypeError):
    """A value was passed to an object of a type other than its own."""

    code = "E0905"

    def __init__(self, kernel: str, site: Site, number: int) -> None:
        _, wanted, *names = site.text.split("\n")
        message = f"a '{names[number]}' was passed where only a '{wanted}' can be"
        note = "; a value that belongs to the type of one object was passed to an object of another"
        super().__init__(kernel, site, message, note)


class ConvertedTexelError(KernelTypeError):
    """An atomic operation on a texel that is not stored as the kernel sees it. It was not done."""

    code = "E0909"

    def __init__(self, kernel: str, site: Site) -> None:
        message = (
            "atomic operations need texels that are stored as the kernel sees them, and these are converted"
        )
        note = "; use a texture of r32_uint, r32_sint, r32_float, or another format of 32 bits"
        KernelReport.__init__(self, kernel, site, message, note)


class NotFiniteError(KernelReport, FloatingPointError):
    """In check mode: a kernel computed or loaded a NaN or an infinity. `thread` is its x, y and z, None where these
    are too large to record; `call` the index of the call, for calls of functions."""

    code = "E0906"

    def __init__(
        self,
        kernel: str,
        site: Site,
        value: str,
        thread: tuple[int, int, int] | None,
        call: tuple[int, ...] | None = None,
    ) -> None:
        self.thread = thread
        self.call = call
        self._site = site
        self._value = value
        place = "" if thread is None else f" in thread {thread}"
        if call is not None:
            place = f" in call {call}" if call else ""
        super().__init__(
            kernel, site, f"{value}{place}", "; check mode stops at the first number that is not finite"
        )

    def in_call(self, call: tuple[int, ...]) -> NotFiniteError:
        """The same error with the index of the call."""
        return NotFiniteError(self.kernel, self._site, self._value, self.thread, call)

    @staticmethod
    def of(kernel: str, site: Site, failure: LaunchFailure) -> NotFiniteError:
        """From the numbers that opt/checks/finite_checks.py packs."""
        packed = -1 - failure.index
        x, y, z = packed & 0xFFFFFFFF, packed >> 32 & 0xFFFF, packed >> 48 & 0x7FFF
        thread = None if y == 0xFFFF or z == 0x7FFF else (x, y, z)
        return NotFiniteError(kernel, site, "a NaN" if failure.extent == 1 else "an infinity", thread)


class PointerError(KernelReport, IndexError):
    """A null pointer was used; in check mode also a pointer outside of its buffer, or outside of all memory. Reads
    gave zero and writes were dropped. `offset` is in bytes; of a pointer that leads nowhere it is the address."""

    code = "E0907"

    def __init__(self, kernel: str, site: Site, offset: int, room: int) -> None:
        self.offset = offset if room < ANYWHERE else _address(offset)
        message = (
            f"a pointer leads to byte {offset} of its buffer, where the last that fits begins at {room - 1}"
        )
        if room < 0:
            message = "a pointer leads to no memory of a buffer, a tensor or a variable"
        elif room == 0:
            message = f"a pointer leads to byte {offset} of its buffer, which is too small for one element"
        elif room == ANYWHERE:
            null = "a null pointer is read or written"
            message = (
                null
                if self.offset == 0
                else f"a pointer leads to address {self.offset:#x}, where there is no memory"
            )
        super().__init__(kernel, site, message, "; the read gave 0 or the write was dropped")


def _address(number: int) -> int:
    """From the number that opt/checks/null_checks.py compares."""
    return (number + FIRST_PAGE) % (1 << 64)


class LaunchReports(Protocol):
    """The receiver of reports of a kernel written in Python."""

    def fail(self, error: int, site: int, index: int = 0, extent: int = 0) -> None:
        """Record an error; the first one is raised after the launch."""

    def print(self, site: int, values: Sequence[Value]) -> None:
        """Write the text of a print site."""


def describe(code: str, message: str, site: Site, note: str) -> str:
    assert code in CODES, f"diagnostic code {code} has no row in CODES"
    lines = [f"error[{code}]: {message}"]
    if site.location:
        lines.append(f"  --> {site.location}")
    if site.excerpt:
        lines.append(site.excerpt)
    return "\n".join([*lines, f"  note: {note}"])


def exception_of(
    failure: LaunchFailure, kernel: str, sites: Sequence[Site], tape_limit: int, room: str = ""
) -> Exception:
    """The exception for a failure. `room`: how much memory there was, where it is not that of each thread."""
    if failure.error == OUT_OF_MEMORY:
        note = room or f"a thread may use {tape_limit} bytes; {limit_note('tape_bytes')}"
        message = f"kernel '{kernel}' ran out of memory for the values that its reverse sweep or its recursion keeps"
        return MemoryError(describe("E0902", message, _site(sites, failure.site), note))
    site = _site(sites, failure.site)
    if failure.error == BOUNDS and site.text == RECURSION_DEPTH:
        return KernelRecursionError(kernel, site, failure.extent - 1)
    if failure.error == BOUNDS and site.text.startswith(TYPE_OF_VALUE):
        return KernelTypeError(kernel, site, failure.index - 1)
    if failure.error == BOUNDS and site.text == CONVERTED:
        return ConvertedTexelError(kernel, site)
    if failure.error == BOUNDS and site.text == POINTER:
        return PointerError(kernel, site, failure.index, failure.extent)
    if failure.error == BOUNDS and site.text == NOT_FINITE:
        return NotFiniteError.of(kernel, site, failure)
    if failure.error == BOUNDS:
        return BoundsError(kernel, site, failure.index, failure.extent)
    assert failure.error == ASSERTION, f"kernel '{kernel}' recorded error {failure.error}"
    return KernelAssertionError(kernel, site)


def no_room_for_frames(kernel: str, size: int, threads: int) -> MemoryError:
    """A GPU lacks memory for the local arrays of one block. `size`: bytes of each thread."""
    message = f"kernel '{kernel}' has {size} bytes of local arrays in each thread, and those of {threads} do not fit"
    return MemoryError(describe("E0902", message, Site(), "arrays of threads can be rows of a tensor"))


def write_text(text: str) -> None:
    """To Python's current standard output; dropped when there is none."""
    if sys.stdout is not None:
        sys.stdout.write(text)


MOST_PRINTED = 16 << 20  # letters that are kept


class Printed:
    """The text that `print` of kernels has written, until the host fetches it."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._room = MOST_PRINTED

    def add(self, line: str) -> None:
        if self._room > 0:
            self._room -= len(line)
            self._lines.append(line if self._room > 0 else "(more was printed than is kept)\n")

    def take(self) -> str:
        """The whole text; the next one starts empty."""
        lines, self._lines, self._room = self._lines, [], MOST_PRINTED
        return "".join(lines)


def print_site(site: Site, values: Sequence[Value], printed: Printed | None) -> None:
    """Prints whose format has braces go to a buffer that the host fetches."""
    line = FORMATS.format_of(site.text).render(values)
    if printed is not None and FORMATS.has_braces(site.text):
        printed.add(line)
    else:
        write_text(line)


def _site(sites: Sequence[Site], number: int) -> Site:
    return sites[number] if 0 <= number < len(sites) else Site()
