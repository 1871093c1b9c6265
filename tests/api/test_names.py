"""The public names: each is found where the table says, and type checkers are told the same."""

import ast
import subprocess
import sys
from inspect import isfunction
from pathlib import Path

import slangrad as spy

PACKAGE = Path(spy.__file__).parent


def test_every_public_name_is_there() -> None:
    assert len(spy.__all__) == len(set(spy.__all__)) > 140
    assert all(getattr(spy, name) is not None for name in spy.__all__)
    assert {"create_device", "float3", "float4x4", "NDBuffer", "float16"} <= set(dir(spy))
    assert spy.NDBuffer is spy.Tensor


def test_type_checkers_know_the_same_names() -> None:
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text())
    told = {
        (node.module, each.name)
        for node in stub.body
        if isinstance(node, ast.ImportFrom) and node.module != "typing"
        for each in node.names
    }
    assert told == {(home, name) for home, names in spy._HOMES.items() for name in names.split()}


def test_every_public_name_has_a_docstring() -> None:
    declared = [getattr(spy, name) for names in spy._HOMES.values() for name in names.split()]
    own = {**vars(spy.math), **vars(spy.optim)}
    declared += [each for name, each in own.items() if isfunction(each) and not name.startswith("_")]
    assert [each for each in declared if not (getattr(each, "__doc__", "") or "").strip()] == []


def test_an_unknown_name() -> None:
    try:
        getattr(spy, "create_devise")  # noqa: B009
    except AttributeError as error:
        assert (
            str(error) == "module 'slangrad' has no attribute 'create_devise': did you mean 'create_device'?"
        )
    else:
        raise AssertionError("there is no such name")


def test_importing_the_package_loads_nothing_else() -> None:
    program = "import sys, slangrad; print([m for m in sys.modules if m.startswith('slangrad.')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
