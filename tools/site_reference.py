"""The reference: all public names by subject, with signatures and docstrings, as the body of a page.

In: the tables of `slangrad/__init__.py`, docstrings.   Out: HTML.
"""

from __future__ import annotations

import enum
import html
import inspect
from dataclasses import fields, is_dataclass
from typing import Any

from markdown_it import MarkdownIt

import slangrad
from slangrad.marshal.host import vectors

# Which homes of names make a part of the page; all homes that are in none come last.
PARTS = {
    "Devices and sessions": "api.devices.device api.devices.create api.sessions.desc base.options "
    "api.devices.features api.sessions.session runtime.device api.devices.current api.devices.reports "
    "api.sessions.hot_reload",
    "Modules and functions": "api.functional.module api.functional.function api.functional.struct "
    "api.functional.instances marshal.registry",
    "Arguments of calls": "marshal.containers.values marshal.simple.generators",
    "Tensors and buffers": "tensors.tensor tensors.elements.shape tensors.buffer marshal.reflection.buffer_cursor "
    "tensors.textures.formats tensors.descriptors",
    "Derivatives": "transforms.gradients transforms.finite_differences",
    "Kernels": "api.kernels.shader api.kernels.kernel api.kernels.pipeline api.kernels.shader_cursor "
    "api.kernels.shader_block api.kernels.commands api.kernels.fences",
    "Reflection": "marshal.reflection.slang_type api.reflection.program_layout api.reflection.declarations "
    "api.reflection.functions marshal.reflection.type_kinds api.reflection.types",
    "Errors": "marshal.errors base.diagnostics runtime.reports call.gradient_check",
}
LONGEST = 96


def reference() -> str:
    """The page's body."""
    names = {home.removeprefix("slangrad."): text.split() for home, text in slangrad._HOMES.items()}
    told = {home for homes in PARTS.values() for home in homes.split()}
    parts = {
        title: [name for home in homes.split() for name in sorted(names[home], key=str.lower)]
        for title, homes in PARTS.items()
    }
    parts["More names"] = [name for home, listed in names.items() if home not in told for name in listed]
    body = [
        "<h1>Reference</h1>",
        "<p>All names of <code>import slangrad as spy</code>, from their docstrings. Names of NumPy's types "
        "(<code>spy.float32</code>) are NumPy's own.</p>",
    ]
    for title, names_of_part in parts.items():
        body.append(f"<h2>{title}</h2>")
        body += [_entry(name, getattr(slangrad, name)) for name in names_of_part]
        if title == "Arguments of calls":
            body.append(_vectors())
    return "\n".join(body)


def _vectors() -> str:
    shown = ", ".join(f"<code>{name}</code>" for name in vectors.class_names() if name[-2:] != "x1")
    return (
        "<div class='entry'><h3><b>Vectors, matrices, quaternions</b></h3><p>Values of the host, which are mutable: "
        "see <a href='docs/tensors.html#vectors-matrices-quaternions'>Values and tensors</a>.</p>"
        f"<p>{shown}</p></div>"
    )


def _entry(name: str, value: Any) -> str:
    lines = [
        f'<div class="entry"><h3 id="{name}"><code><b>{name}</b>{_signature(value)}</code>{_kind(value)}</h3>'
    ]
    lines.append(_prose(value))
    if inspect.ismodule(value):
        attributes = {key: getattr(value, key) for key in dir(value) if not key.startswith("_")}
        attributes = {
            key: of for key, of in attributes.items() if getattr(of, "__module__", "").startswith("slangrad")
        }
        of_vectors = set(vectors.class_names())
        shown = {key: (of, of) for key, of in attributes.items() if callable(of) and key not in of_vectors}
        lines.append(_definitions(shown))
    elif inspect.isclass(value) and value.__module__.startswith("slangrad"):
        lines.append(_constructor(value))
        lines.append(_members(value))
    return "\n".join([*lines, "</div>"])


def _kind(value: Any) -> str:
    if inspect.isclass(value):
        kind = (
            "enum" if issubclass(value, enum.Enum) else "error" if issubclass(value, Exception) else "class"
        )
    else:
        kind = "module" if inspect.ismodule(value) else "function" if callable(value) else "value"
    return f'<span class="kind">{kind}</span>'


def _constructor(kind: type) -> str:
    initializer = vars(kind).get("__init__")
    told = inspect.getdoc(initializer) if initializer is not None and not is_dataclass(kind) else ""
    return MarkdownIt().render(told or "")


def _members(kind: type) -> str:
    if issubclass(kind, enum.Enum):
        shown = ", ".join(f"<code>{html.escape(member)}</code>" for member in kind.__members__)
        return f"<p>{shown}</p>"
    members: dict[str, tuple[Any, Any]] = {}
    for base in reversed(
        [base_kind for base_kind in kind.__mro__ if base_kind.__module__.startswith("slangrad")]
    ):
        for member, of in vars(base).items():
            plain = of.__func__ if isinstance(of, (staticmethod, classmethod)) else of
            is_told = not member.startswith("_") or member == "__call__"
            if is_told and (inspect.isfunction(plain) or isinstance(plain, property)):
                members[member] = plain, of
    if is_dataclass(kind):
        typed = {field.name: field for field in fields(kind) if not field.name.startswith("_")}
        shown = ", ".join(
            f"<code>{name}: {html.escape(str(field.type))}</code>" for name, field in typed.items()
        )
        return (f"<p>Fields: {shown}</p>" if shown else "") + _definitions(members)
    return _definitions(members)


def _definitions(members: dict[str, tuple[Any, Any]]) -> str:
    """Members that have docstrings; others are for the package itself."""
    lines = []
    for name, (plain, of) in sorted(members.items()):
        if not inspect.getdoc(plain):
            continue
        kind = "property" if isinstance(plain, property) else ""
        kind = "static" if isinstance(of, (staticmethod, classmethod)) else kind
        mark = f'<span class="kind">{kind}</span>' if kind else ""
        lines.append(f"<dt><code><b>{name}</b>{_signature(plain)}</code>{mark}</dt><dd>{_prose(plain)}</dd>")
    return '<dl class="members">' + "\n".join(lines) + "</dl>" if lines else ""


def _signature(value: Any) -> str:
    """`(a: int, b=1) -> str`, in lines where it is long; nothing for what is not called."""
    if isinstance(value, property) or not callable(value):
        return ""
    if inspect.isclass(value) and (issubclass(value, (enum.Enum, Exception))):
        return ""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    shown = [
        str(parameter.replace(annotation=parameter.empty))
        if parameter.annotation is parameter.empty
        else _parameter(parameter)
        for parameter in signature.parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    result = "" if signature.return_annotation in (signature.empty, "None") else signature.return_annotation
    arrow = f" -> {result}" if result and not inspect.isclass(value) else ""
    line = f"({', '.join(shown)}){arrow}"
    if len(line) <= LONGEST:
        return html.escape(line)
    inner = "".join(f"<br>&nbsp;&nbsp;&nbsp;&nbsp;{html.escape(line)}," for line in shown)
    return f"({inner}<br>){html.escape(arrow)}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    kind = (
        parameter.annotation
        if isinstance(parameter.annotation, str)
        else inspect.formatannotation(parameter.annotation)
    )
    typed = f"{stars}{parameter.name}" if kind in ("Any", "object") else f"{stars}{parameter.name}: {kind}"
    if parameter.default is parameter.empty:
        return typed
    default = parameter.default.__name__ if inspect.isclass(parameter.default) else repr(parameter.default)
    return f"{typed} = {default}"


def _prose(value: Any) -> str:
    is_documented = (
        inspect.isclass(value) or inspect.ismodule(value) or callable(value) or isinstance(value, property)
    )
    return MarkdownIt().render(inspect.getdoc(value) or "") if is_documented else ""
