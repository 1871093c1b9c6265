"""How a program is made, as plain data: another process makes the same one (`worker.py`).

    step = ("source", "scale", "float scale(float x) {...}", "")     a step that makes a module; `perform` runs it
    recipe = recipe_of(settings, target, ..., steps)                   all that the program depends on, as JSON

Imported modules are found anew, in the same places. Their keys show whether they are the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slangrad.base.disk.store import Json, Store
from slangrad.base.options import Limits, Options
from slangrad.base.source import SourceFile
from slangrad.cache import environment_key
from slangrad.call.binding.module_index import reachable
from slangrad.check.texts.files import CacheFolder, Files

if TYPE_CHECKING:
    from slangrad.check.checked_module import CheckedModule
    from slangrad.check.modules import CheckedProgram

Step = tuple[str, ...]
Recipe = dict[str, Json]
Places = tuple[Sequence[str | Path], bool, Sequence[CacheFolder]]  # the arguments of Files


# fmt: off
_PERFORM: dict[str, Callable[..., CheckedModule]] = {
    "file":        lambda p, of, name: p.load_module(name),
    "source":      lambda p, of, name, text, path: p.add_source(name, text, Path(path) if path else None),
    "precompiled": lambda p, of, name, path, data: p.add_precompiled(name, Path(path), data.encode("latin-1")),
    "link":        lambda p, of: p.link(of[0], of[1:]),
    "beside":      lambda p, of, name, text: p.with_text(of[0], SourceFile(name, text)),
}
# fmt: on


def perform(program: CheckedProgram, step: Sequence[str], made_of: Sequence[object]) -> CheckedModule:
    """Make a module in a program, of modules that are there."""
    kind, *inputs = step
    return _PERFORM[kind](program, made_of, *inputs)


# The keys are of `api`, which this folder does not know.
def steps_of(checked: Mapping[Any, CheckedModule], needed: Iterable[CheckedModule]) -> list[object] | None:
    """The steps that make all needed modules, each with the numbers of the modules that it uses; None without a
    recipe. `checked`: the checked module of each module that the user requested, whose class is one of `api`."""
    wanted = {other for module in needed for other in reachable(module)}
    all_checked = {other for module in checked.values() for other in reachable(module)}
    if not wanted <= all_checked:
        return None
    chosen: list[Any] = []  # of `checked`
    for loaded in sorted(checked, key=lambda loaded: -loaded.number):
        if checked[loaded] in wanted:
            chosen.insert(0, loaded)
            wanted.update(of for module in loaded.made_of for of in reachable(checked[module]))
    numbers = {loaded: number for number, loaded in enumerate(chosen)}
    return [[loaded.step, [numbers[of] for of in loaded.made_of]] for loaded in chosen]


def recipe_of(
    options: Options, target: str, defines: Mapping[str, str], places: Places, steps: list[object]
) -> Recipe | None:
    """None where kernels of the target have no bytes."""
    environment = environment_key(target)
    if not environment:
        return None
    paths, sources_first, caches = places
    kept = [[str(cache.folder), str(cache.sources)] for cache in caches]
    return {
        "environment": environment,
        "options": recipe_of_options(options),
        "target": target,
        "defines": dict(defines),
        "files": [[*map(str, paths)], sources_first, kept],
        "here": os.getcwd(),
        "steps": steps,
    }


def files_of(recipe: Recipe) -> Files:
    paths, sources_first, kept = recipe["files"]
    return Files(paths, sources_first, [CacheFolder(Path(a), Path(b)) for a, b in kept])


def recipe_of_options(options: Options) -> Recipe:
    """Settings as JSON has them. Those of the folder for kernels are its place and size."""
    store = options.store
    recipe = asdict(replace(options, store=None, dump=(), also=(), progress=False))
    recipe |= {name: sorted(value) for name, value in recipe.items() if isinstance(value, frozenset)}
    return {**recipe, "store": None if store is None else [os.path.dirname(store.folder), store.limit]}


def options_of(recipe: Recipe) -> Options:
    store, limits = recipe["store"], Limits(**recipe["limits"])
    warnings = {name: frozenset(recipe[name]) for name in ("disable_warnings", "warnings_as_errors")}
    kept = None if store is None else Store(*store)
    return Options(**{**recipe, **warnings, "dump": (), "also": (), "limits": limits, "store": kept})
