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
    "Devices and sessions": "api.devices.device api.sessions.desc base.options compat.features "
    "api.sessions.session runtime.device api.devices.current api.devices.reports "
    "api.sessions.hot_reload",
    "Modules and functions": "api.functional.module api.functional.function api.functional.struct "
    "api.functional.instances marshal.registry",
    "Arguments of calls": "marshal.containers.values marshal.simple.generators",
    "Tensors and buffers": "tensors.tensor tensors.shape tensors.buffer marshal.reflection.buffer_cursor "
    "tensors.formats",
    "Derivatives": "transforms.gradients transforms.finite_differences",
    "Kernels": "api.kernels.shader api.kernels.kernel api.kernels.shader_cursor api.kernels.shader_block "
    "api.kernels.commands api.kernels.fences",
    "Reflection": "marshal.reflection.slang_type api.reflection.program_layout api.reflection.declarations "
    "api.reflection.functions marshal.reflection.type_kinds api.reflection.types",
    "Errors": "marshal.errors base.diagnostics runtime.reports call.gradient_check",
}
LONGEST = 96


def reference() -> str:
    """The page's body."""
    names = {home.removeprefix("slangrad."): each.split() for home, each in slangrad._HOMES.items()}
    told = {home for homes in PARTS.values() for home in homes.split()}
    parts = {
        title: [name for home in homes.split() for name in sorted(names[home], key=str.lower)]
        for title, homes in PARTS.items()
    }
    parts["More names"] = [name for home, each in names.items() if home not in told for name in each]
    body = [
        "<h1>Reference</h1>",
        "<p>All names of <code>import slangrad as spy</code>, from their docstrings. Names of NumPy's types "
        "(<code>spy.float32</code>) are NumPy's own.</p>",
    ]
    for title, each in parts.items():
        body.append(f"<h2>{title}</h2>")
        body += [_entry(name, getattr(slangrad, name)) for name in each]
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
        own = {each: getattr(value, each) for each in dir(value) if not each.startswith("_")}
        own = {each: of for each, of in own.items() if getattr(of, "__module__", "").startswith("slangrad")}
        of_vectors = set(vectors.class_names())
        shown = {each: (of, of) for each, of in own.items() if callable(of) and each not in of_vectors}
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
    own = vars(kind).get("__init__")
    told = inspect.getdoc(own) if own is not None and not is_dataclass(kind) else ""
    return MarkdownIt().render(told or "")


def _members(kind: type) -> str:
    if issubclass(kind, enum.Enum):
        shown = ", ".join(f"<code>{html.escape(each)}</code>" for each in kind.__members__)
        return f"<p>{shown}</p>"
    found: dict[str, tuple[Any, Any]] = {}
    for base in reversed([each for each in kind.__mro__ if each.__module__.startswith("slangrad")]):
        for member, of in vars(base).items():
            plain = of.__func__ if isinstance(of, (staticmethod, classmethod)) else of
            is_told = not member.startswith("_") or member == "__call__"
            if is_told and (inspect.isfunction(plain) or isinstance(plain, property)):
                found[member] = plain, of
    if is_dataclass(kind):
        typed = {each.name: each for each in fields(kind) if not each.name.startswith("_")}
        shown = ", ".join(
            f"<code>{name}: {html.escape(str(each.type))}</code>" for name, each in typed.items()
        )
        return (f"<p>Fields: {shown}</p>" if shown else "") + _definitions(found)
    return _definitions(found)


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
        str(each.replace(annotation=each.empty)) if each.annotation is each.empty else _parameter(each)
        for each in signature.parameters.values()
        if each.name not in ("self", "cls")
    ]
    result = "" if signature.return_annotation in (signature.empty, "None") else signature.return_annotation
    arrow = f" -> {result}" if result and not inspect.isclass(value) else ""
    line = f"({', '.join(shown)}){arrow}"
    if len(line) <= LONGEST:
        return html.escape(line)
    inner = "".join(f"<br>&nbsp;&nbsp;&nbsp;&nbsp;{html.escape(each)}," for each in shown)
    return f"({inner}<br>){html.escape(arrow)}"


def _parameter(each: inspect.Parameter) -> str:
    stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
    kind = each.annotation if isinstance(each.annotation, str) else inspect.formatannotation(each.annotation)
    typed = f"{stars}{each.name}" if kind in ("Any", "object") else f"{stars}{each.name}: {kind}"
    if each.default is each.empty:
        return typed
    default = each.default.__name__ if inspect.isclass(each.default) else repr(each.default)
    return f"{typed} = {default}"


def _prose(value: Any) -> str:
    own = inspect.isclass(value) or inspect.ismodule(value) or callable(value) or isinstance(value, property)
    return MarkdownIt().render(inspect.getdoc(value) or "") if own else ""
