"""print of sgl.device.print: what a format shows, and what the host fetches."""

from collections.abc import Iterator

import numpy as np
import pytest

import slangrad as spy
from slangrad.base.prints.brace_formats import Argument, decoded, encode, pieces_of

F = np.float32


def shown(text: str, value: float, kind: str = "f32") -> str:
    return decoded(encode(pieces_of(text), [Argument(kind)])).render([value])[:-1]


@pytest.mark.parametrize("bits", [32, 64])
def test_floats_have_their_shortest_digits(bits: int) -> None:
    exact = np.float32 if bits == 32 else np.float64
    rng = np.random.default_rng(0)
    random = rng.standard_normal(200) * 10.0 ** rng.integers(-12, 25, 200)
    for value in [0.0, -0.0, 1.0, 100.0, 1e15, 1e16, 0.1, 1e-4, 9.9e-5, 3.4028235e38, 1e-45, *random]:
        number = exact(value)
        text = shown("{}", float(number), f"f{bits}")
        assert exact(text) == number
        power = "0" if number == 0 else np.format_float_scientific(number, unique=True).split("e")[1]
        fixed = -4 <= int(power) < 16
        assert ("e" in text) is not fixed
        digits = np.format_float_positional(number, unique=True, trim="-") if fixed else text
        assert text == digits


def test_specs() -> None:
    assert shown("{:8.2f}|{0:<6}|{0:>6}|{0:06}|{0:^7}|{0:*>4}", 1.5).split("|") == [
        "    1.50", "1.5   ", "   1.5", "0001.5", "  1.5  ", "*1.5",
    ]  # fmt: skip
    assert shown("{:+} {0: } {0:e} {0:.3}", 2.0) == "+2  2 2.000000e+00 2"
    assert shown("{:5}|{0:<5}|{0:#x}|{0:b}|{0:05}", 10, "i32") == "   10|10   |0xa|1010|00010"
    assert shown("{}|{0:6}|{0:d}", 1, "bool") == "true|true  |1"
    assert shown("{{}} {}", -3, "i64") == "{} -3"
    assert shown("{} {0:.1f}", float("inf")) == "inf inf"


@pytest.fixture(scope="module")
def device() -> Iterator[spy.Device]:
    with spy.create_device(enable_print=True) as made:
        yield made


def load(device: spy.Device, text: str) -> spy.Module:
    return spy.Module.load_from_source(device, "m", f"import sgl.device.print;\n{text}")


def test_values_of_all_kinds(device: spy.Device) -> None:
    module = load(
        device,
        """
        void show(float3 v, int[2] a, uint64_t n, bool b, half h)
        {
            print("{} {} {} {} {:.4} {}", v, a, n, b, h, "text");
            print("{:.1f}", float2x3(v, 2 * v));
            print("nothing");
        }
        void one(int i) { print("{}", i); }
        """,
    )
    module.show(spy.float3(1, 0.5, 1e20), [1, -2], 2**64 - 1, True, 0.1)
    assert device.flush_print_to_string().splitlines() == [
        "{1, 0.5, 1e+20} {1, -2} 18446744073709551615 true 0.09998 text",
        "{{1.0, 0.5, 100000002004087734272.0}, {2.0, 1.0, 200000004008175468544.0}}",
        "nothing",
    ]
    assert device.flush_print_to_string() == ""
    module.one(np.arange(1000))
    assert device.flush_print_to_string() == "".join(f"{i}\n" for i in range(1000))


def test_flush_writes(device: spy.Device, capsys: pytest.CaptureFixture[str]) -> None:
    load(device, 'void f(int i) { print("{}", i); }').f(7)
    assert capsys.readouterr().out == ""
    device.flush_print()
    assert capsys.readouterr().out == "7\n"


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_devices_do_not_mix_and_print_nothing_unless_asked(backend: str) -> None:
    text = 'int f(inout int i) { i += 1; return i; } void g(int i) { print("{}", f(i)); }'
    devices = [spy.create_device(backend=backend, enable_print=enabled) for enabled in (True, True, False)]
    for i, each in enumerate(devices):
        load(each, text).g(i)
    assert [each.flush_print_to_string() for each in devices] == ["1\n", "2\n", ""]
    for each in devices:
        each.close()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('print("{} {}", x)', "shows 2 values, and 1 are given"),
        ('print("{}", x, x)', "shows 1 values, and 2 are given"),
        ('print("{:d}", x)', "E0707"),
        ('print("{", x)', "is no place for a value"),
        ('print("}")', "a brace by itself"),
        ('print("{}", s)', "not 'S'"),
        ('PrintableString t = "a"; print("{:d}", t)', "E0707"),
        ('PrintableString[2] t = { "a", "b" }; print("{}", t)', r"not 'PrintableString\[2\]'"),
    ],
)
def test_formats_are_checked_when_compiling(device: spy.Device, call: str, message: str) -> None:
    module = load(device, f"struct S {{ int a; }} void f(float x) {{ S s; {call}; }}")
    with pytest.raises(spy.SlangCompileError, match=message):
        module.f(1.0)


def test_texts_as_numbers(device: spy.Device) -> None:
    text = """
    PrintableString named(int i) { if (i == 0) return "zero"; return PrintableString("more"); }
    uint f(int i) { return named(i).hash; }
    """
    module = load(device, text)
    names = {each.hash: each.string for each in module.layout.program_layout.hashed_strings}
    assert [names[int(each)] for each in module.f(np.arange(3), _result="numpy")] == ["zero", "more", "more"]


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_texts_in_variables(backend: str) -> None:
    names = """
    import sgl.device.print;
    public PrintableString named(int i) { if (i % 2 == 0) return "even {}"; return PrintableString("odd"); }
    public void show(PrintableString text, int i) { print("{:>8}|{}|{0:.2}|{}", text, i, "x"); }
    """
    text = """
    import names;
    struct Entry { PrintableString name; int number; }
    void f(int i)
    {
        Entry[2] entries = { { named(i), i }, { "of its own", -i } };
        for (int k = 0; k < 2; ++k) show(entries[k].name, entries[k].number);
    }
    void g(PrintableString s) { show(s, 0); }
    """
    with spy.create_device(backend=backend, enable_print=True) as device:
        device.load_module_from_source("names", names)
        module = load(device, text)
        module.f(3)
        module.f(2)
        expected = ["     odd|3|od|x", "of its own|-3|of|x", " even {}|2|ev|x", "of its own|-2|of|x"]
        assert device.flush_print_to_string().splitlines() == expected
        module.g({"hash": 7})
        assert device.flush_print_to_string() == "PrintableString(7)|0|Pr|x\n"


def test_threads_that_print_nothing(device: spy.Device) -> None:
    text = """
    void say(int i) { print("{}", i); }
    void f(int i)
    {
        say(i);
        for (int k = 0; k < 3; ++k)
        {
            set_print_enabled(k == i);
            say(10 * k);
        }
        set_print_enabled(i == 1);
        say(-i);
    }
    """
    load(device, text).f(spy.grid((2,)))
    assert sorted(device.flush_print_to_string().split()) == ["-1", "0", "0", "1", "10"]
