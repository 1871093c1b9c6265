"""The public names: each is found where the table says, and type checkers are told the same."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from inspect import getsource, isclass, isfunction
from pathlib import Path
from textwrap import dedent
from types import FunctionType

import numpy as np

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


def public_functions() -> Iterator[tuple[str, FunctionType, type | None]]:
    """Functions and methods behind public names, each with its class."""
    rooms = (spy, spy.graph, spy.math, spy.optim, spy.platform)
    names = {room: dir(room) if room is not spy else spy.__all__ for room in rooms}
    for room in rooms:
        for name in names[room]:
            value = getattr(room, name)
            if isfunction(value):
                yield name, value, None
            elif isclass(value) and not name.startswith("_"):
                for attribute, member in vars(value).items():
                    function = getattr(member, "fget", None) or getattr(member, "__func__", member)
                    if isfunction(function) and not attribute.startswith("_"):
                        yield f"{name}.{attribute}", function, value


PUBLIC = {
    id(function): (title, function, owner)
    for title, function, owner in public_functions()
    if function.__module__.startswith("slangrad.") and not title.startswith("_")
}


def test_every_public_function_has_a_docstring() -> None:
    """But those of arrays that NumPy's arrays have."""
    silent = [title for title, function, owner in PUBLIC.values() if not function.__doc__]
    numpy = {f"Array.{name}" for name in dir(np.ndarray)}
    assert len(PUBLIC) > 700 and set(silent) - numpy == set()


def test_docstrings_state_the_errors_that_functions_raise() -> None:
    """In the docstring of the function or of its class, by the name of the exception."""
    silent = []
    for title, function, owner in PUBLIC.values():
        body = ast.walk(ast.parse(dedent(getsource(function))))
        text = f"{function.__doc__} {owner.__doc__ if owner is not None else ''}"
        raises = any(isinstance(node, ast.Raise) and node.exc is not None for node in body)
        if raises and function.__doc__ and not re.search(r"Error|error|Warning|raise", text):
            silent.append(title)
    assert silent == []


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
