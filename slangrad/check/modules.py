"""Programs: finding, parsing and checking modules, and queries of other stages.

In: paths, names, texts.   Out: a Program, whose modules are checked; a CompileError when something is wrong.

    program = Program(Options(), [Path("shaders")])
    module = program.load_module("polynomial")       polynomial.slang in a search path
    module = program.add_source("kernel", text)      a text that may import the others

The standard library is visible everywhere; its bodies are checked when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from pathlib import Path

from slangrad.base.compiling import compiling
from slangrad.base.diagnostics import CompileError, Diagnostic, Reporter
from slangrad.base.disk.store import content_key
from slangrad.base.module_file import CIRCLE, FILE, LINK, MODULE, Macros
from slangrad.base.options import Options, store_of
from slangrad.base.progress import shown
from slangrad.base.records import record
from slangrad.base.source import SourceFile, Span
from slangrad.base.traits import CPU, Traits
from slangrad.check.bodies import bodies
from slangrad.check.bodies.finite import require_finite
from slangrad.check.checked_module import CheckedModule
from slangrad.check.derivatives import derivative_attributes
from slangrad.check.full_checker import FullChecker
from slangrad.check.generics.signatures import signature_of, signature_text
from slangrad.check.generics.substitution import identity, self_argument
from slangrad.check.interfaces import differentiable
from slangrad.check.interfaces.lookup import add_extension, nested
from slangrad.check.model.checker import Checker, VisibleExtensions
from slangrad.check.model.declref import Bindings, DeclRef
from slangrad.check.model.types import Type
from slangrad.check.names import resolve
from slangrad.check.names.scopes import ModuleScope
from slangrad.check.names.struct_fields import complete_structs
from slangrad.check.texts import standard
from slangrad.check.texts.dependencies import DependencyTrace
from slangrad.check.texts.files import WITHIN_STANDARD, Files, is_standard
from slangrad.check.texts.linking import can_be_linked, exported_names, named_from, open_names
from slangrad.syntax import ast
from slangrad.syntax.parser import parse_module


@record
class Loading:
    """A module whose imports are being loaded. `lowest`: the first module in the list of these that an import led back
    to. `waiting`: modules that are complete when this one is, as they import it."""

    key: str
    module: CheckedModule
    lowest: int
    waiting: list[tuple[CheckedModule, list[ast.Declaration]]] = field(default_factory=list)


class CheckedProgram(FullChecker):
    """Modules that can import each other, the standard library among them."""

    def __init__(
        self,
        options: Options | None = None,
        include_paths: Iterable[str | Path] = (),
        defines: dict[str, str] | None = None,
        files: Files | None = None,
        traits: Traits = CPU,
    ) -> None:
        super().__init__(options or Options(), traits)
        self.files = Files(include_paths) if files is None else files
        self.defines = dict(defines or {})
        self.modules: dict[str, CheckedModule] = {}
        self._loading: list[Loading] = []
        self._waiting: dict[str, tuple[CheckedModule, int]] = {}  # those of all that are being loaded, by key
        self._links: dict[str, list[CheckedModule]] = {}  # the modules that export a name
        self._linked: dict[CheckedModule, CheckedModule] = {}
        self._trace = DependencyTrace(self)
        self._owners: dict[ast.ModuleDeclaration, CheckedModule] = {}
        self._views: dict[frozenset[ModuleScope], VisibleExtensions] = {}
        self._standard, self._store = ModuleScope(self, None, "std"), store_of(self.options)
        self.library = self._standard.names
        self._parts: set[str] = set()
        with compiling():
            self._load_standard(standard.files(self._store))
        self.reporter.raise_if_errors()

    # --- Loading ---

    def _load_standard(self, files: list[ast.ModuleDeclaration]) -> None:
        self._declare(self._standard, files)
        self._standard.view = self._view_of(self._standard)
        self._extend(self._standard, files)

    def _load_parts(self, module: CheckedModule) -> None:
        """The parts of the library that the texts of a module mention, for all modules from now on."""
        origin = module.origin
        assert origin is not None
        texts = (origin.source, *origin.texts.values())
        named = standard.parts_named_in(
            [*(read.text for read in texts), *(text for _, text in origin.macros)]
        )
        if named <= self._parts:
            return
        seen_from, files = self.view, standard.parts(named - self._parts, self._store)
        self._parts |= named
        self._load_standard(files)
        self.view = seen_from
        for view in self._views.values():
            view.forget()

    def add_source(
        self, name: str, text: str, path: Path | None = None, is_page: bool = False
    ) -> CheckedModule:
        """Check a text as its own module, which later ones can import by `name`. With a path it is as if it stood
        in that file.
        """
        source = SourceFile(name if path is None else str(path), text, is_page)
        return self._guarded(name, lambda: self._add(name, source, path))

    def add_precompiled(self, name: str, path: Path, data: bytes) -> CheckedModule:
        """The same for the bytes of a precompiled module, as if they stood in that file; ModuleFileError."""
        source = self.files.precompiled.add(path, data)
        return self._guarded(name, lambda: self._add(name, source, path))

    def load_module(self, name: str) -> CheckedModule:
        """The module of that name or path."""
        self.files.asked_for.add(name)
        return self._guarded(name, lambda: self._find_module(name, None, None))

    def link(self, module: CheckedModule, exporters: Sequence[CheckedModule]) -> CheckedModule:
        """The module, checked again with `extern` declarations of it and its imports replaced by exports of
        others."""
        for exporter in exporters:
            for name in dict.fromkeys(exported_names(exporter.files)):
                self._links.setdefault(name, []).append(exporter)
        try:
            return self._guarded(module.name, lambda: self._again(module))
        finally:
            self._links, self._linked = {}, {}

    def with_text(self, module: CheckedModule, added: SourceFile) -> CheckedModule:
        """The module, checked again with one more file, which may define its `extern` declarations."""
        if module.added is not None:
            added = SourceFile(added.name, f"{module.added.text}\n{added.text}")
        name, source = f"{module.name}@{len(self.modules)}", module.declaration.source
        return self._guarded(name, lambda: self._add(name, source, module.path, added))

    def _again(self, module: CheckedModule) -> CheckedModule:
        """A module with the links; itself if they do not change it."""
        if module not in self._linked:
            self._linked[module] = module  # where imports lead back to it
            changed = any(can_be_linked(member, self._links) for member in module.members)
            changed |= any(self._again(imported) is not imported for imported in module.imports)
            if changed:
                name = f"{module.name}@{len(self.modules)}"
                self._linked[module] = self._add(name, module.declaration.source, module.path, module.added)
        return self._linked[module]

    def _put_links(self, module: CheckedModule) -> list[ast.Declaration]:
        """Import linked declarations in place of the `extern` ones of a module, which are returned."""
        replaced = module.take_out(self._links)
        for declaration in replaced:
            exporters = self._links[declaration.name]
            for exporter in exporters if isinstance(declaration, ast.FunctionDeclaration) else exporters[-1:]:
                self._put_link(module, self._again(exporter), declaration.name)
        return replaced

    def _put_link(self, module: CheckedModule, exporter: CheckedModule, name: str) -> None:
        """Let a module see one name of another one."""
        scope = module.scope
        if exporter not in module.imports:
            self._trace.note(LINK, exporter.name, str(module.path or ""), exporter.key)
            module.imports.append(exporter)
            scope.imports.append(exporter.scope)
            scope.linked[exporter.scope] = set()
        if exporter.scope in scope.linked:
            scope.linked[exporter.scope].add(name)

    def extern_constants(self, module: CheckedModule) -> dict[str, Type]:
        """The types of the constants that other modules may give a module."""
        return {
            member.name: self.info(member).type
            for member in module.members
            if isinstance(member, ast.Variable) and member.has("extern")
        }

    def require_closed(self, module: CheckedModule, used: ast.Declaration) -> None:
        """Report open declarations of a module and its imports, as far as a function may use them."""
        files = [part for used_module in module.with_imports() for part in used_module.files]
        left = open_names(files)
        names = named_from(used, files) if left else set()
        note = "give it a value here, or link a module that exports it"
        errors = [
            Diagnostic(
                "E0704", f"'{name}' has no value: no linked module exports it", declaration.name_span, note
            )
            for name, declaration in left.items()
            if name in names
        ]
        if errors:
            raise CompileError(errors)

    def _guarded(self, name: str, work: Callable[[], CheckedModule | None]) -> CheckedModule:
        """Run one stage with its own errors; raise them together."""
        self.reporter, before = self._new_reporter(), set(self.modules)
        refused = len(self.refusals.diagnostics)
        with shown(f"module {name}", self.options.progress), compiling():
            try:
                module: CheckedModule | None = work()
            except CompileError as error:  # a refusal that no check can go on from
                for diagnostic in error.diagnostics:
                    self.reporter.report(diagnostic)
            finally:
                self._loading.clear()
                self._waiting.clear()
                self._trace.forget()
        if self.reporter.has_errors:
            for refusal in self.refusals.taken_from(refused):
                self.reporter.report(refusal)
            for name in (
                self.modules.keys() - before
            ):  # else the next query would get the module without its errors
                del self.modules[name]
        self.reporter.raise_if_errors()
        assert module is not None
        return module

    def _new_reporter(self) -> Reporter:
        """Modules were warned of when they were compiled."""
        return Reporter(options=self.options, is_settled=self.files.is_precompiled)

    def _add(
        self, name: str, source: SourceFile, path: Path | None, added: SourceFile | None = None
    ) -> CheckedModule:
        self._trace.begin()
        main = self._parse(source, path)
        scope = ModuleScope(self, self._standard, name)
        module = CheckedModule(name, main, scope, [main], [], path, added)
        loading = Loading(name, module, len(self._loading))
        self._loading.append(loading)
        self._gather_files(module, main, module.path)
        replaced = [] if added is None else self._put_file(module, added)
        if self._links:
            replaced += self._put_links(module)
        self._declare(scope, module.files)
        for part in module.files:
            self._import_all(module, part)
        for declaration in nested(module.members, (ast.Namespace,)):
            if isinstance(declaration, ast.Using) and isinstance(declaration.parent, ast.Namespace):
                resolve.use(self.scope_of(declaration.parent), declaration)
        if source.is_page:
            scope.see_as([imported.scope for imported in module.imports])
        self._identify(module)
        self._load_parts(module)
        self._loading.pop()
        loading.waiting.append((module, replaced))
        if loading.lowest < len(self._loading):  # it imports a module that is being loaded
            outer = self._loading[-1]
            outer.lowest = min(outer.lowest, loading.lowest)
            outer.waiting += loading.waiting
            self._waiting[name] = module, loading.lowest
        else:
            self._complete(loading.waiting)
        return module

    def _complete(self, circle: list[tuple[CheckedModule, list[ast.Declaration]]]) -> None:
        """Check a module whose imports are there, or all modules of a circle."""
        importer = self.view
        if len(circle) > 1:
            keys = sorted(module.key for module, _ in circle)
            for module, _ in circle:
                module.key = content_key(module.key, keys)
                for imported in list(module.imports):
                    module.see(imported.reexported())
        for module, _ in circle:
            self._waiting.pop(module.name, None)
            module.scope.view = self._view_of(module.scope)
        for module, _ in circle:
            self._extend(module.scope, module.files)
        for module, replaced in circle:
            self.view = module.scope.view
            for declaration in replaced:
                if isinstance(declaration, ast.FunctionDeclaration):
                    _check_given(self, module.scope, declaration)
            if not any(diagnostic.is_error for diagnostic in self.reporter.diagnostics):
                self.modules[module.name] = module
                if module.declaration.module_name:
                    self.modules.setdefault(module.declaration.module_name, module)
        for module, _ in circle:
            self.view = module.scope.view
            if not is_standard(module.path):  # bodies of the library are checked when they are needed
                self._check_module(module)
        self.view = importer if self._loading else self.view

    def _identify(self, module: CheckedModule) -> None:
        source, macros = module.declaration.source, self._macros(module.path)
        module.origin = self._trace.end(source, module.path, macros)
        module.key = content_key(source.name, source.text, module.origin.requests, macros)
        self._owners |= dict.fromkeys(module.files, module)

    def module_of(self, declaration: ast.Declaration) -> CheckedModule:
        """The module that a declaration stands in; not for the standard library."""
        while declaration.parent is not None:
            declaration = declaration.parent
        return self._owners[declaration]  # type: ignore[index]

    def _declare(self, scope: ModuleScope, files: list[ast.ModuleDeclaration]) -> None:
        """Make the names of files known."""
        for part in files:
            self.scopes[part] = scope
            scope.add_file(part)
            scope.extends |= bool(_extensions(part.members))

    def _extend(self, scope: ModuleScope, files: list[ast.ModuleDeclaration]) -> None:
        """Make the extensions and derivatives known, whose targets may be imported."""
        self.view = scope.view
        for part in files:
            for extension in _extensions(part.members):
                add_extension(self, extension)
                self.extension_homes[extension] = scope
        for part in files:
            if scope is not self._standard:  # which has no bit fields, and no structs that inherit
                complete_structs(self, part.members)
            if scope is not self._standard or derivative_attributes.are_named_in(part.source):
                derivative_attributes.note_derivatives(self, part.members)
        if scope.extends:
            self.view.forget()

    def _view_of(self, scope: ModuleScope) -> VisibleExtensions:
        """The view of a module; modules with the same visible extensions share it."""
        seen, pending = {self._standard}, [scope]
        while pending:
            visited = pending.pop()
            if visited not in seen or visited is scope:
                pending += [imported for imported in visited.imports if imported not in seen]
                seen.add(visited)
        key = frozenset(seen_scope for seen_scope in seen if seen_scope.extends)
        return self._views.setdefault(key, VisibleExtensions(key))

    def look_from(self, declaration: ast.Declaration) -> None:
        """Look up members and conformances from the module of a declaration from now on, with its visible
        extensions.
        """
        while declaration.parent is not None:
            declaration = declaration.parent
        scope = self.scopes[declaration]
        assert isinstance(scope, ModuleScope)
        self.view = scope.view

    def _check_module(self, module: CheckedModule) -> None:
        for part in module.files:
            require_finite(self, part.members)
        for part in module.files:
            bodies.check_members(self, part)
        self._check_later()

    def check_body(self, declaration: ast.AnyFunction) -> None:
        """Make sure that a body is checked; only those of the standard library are not already."""
        if self.info(declaration).body_checked:
            return
        self.reporter = self._new_reporter()
        with compiling():
            bodies.check_body(self, declaration)
            self._check_later()
        self.reporter.raise_if_errors()

    def _check_later(self) -> None:
        """Run the checks that wait until declarations are complete."""
        while self.later:
            self.later.pop(0)()

    # --- Files and imports ---

    def _gather_files(self, module: CheckedModule, part: ast.ModuleDeclaration, path: Path | None) -> None:
        """Includes are looked for beside the part that has them."""
        for member in part.members:
            if not isinstance(member, ast.IncludeModule) or member.keyword != "__include":
                continue
            source, part_path = self._trace.part(member.path, path, member.span)
            if source is None or any(file.source.name == source.name for file in module.files):
                continue
            included = self._parse(source, part_path)
            module.files.append(included)
            self._gather_files(module, included, part_path)

    def _put_file(self, module: CheckedModule, text: SourceFile) -> list[ast.Declaration]:
        """One more file, whose exports replace open declarations of the others, which are returned."""
        more = self._parse(text)
        self._trace.note_text(FILE, text.name, "", text)
        exported = exported_names([more])
        replaced = module.take_out(exported)
        module.files.append(more)
        self._gather_files(module, more, module.path)
        return replaced

    def _import_all(self, module: CheckedModule, part: ast.ModuleDeclaration) -> None:
        for member in nested(part.members, (ast.Namespace,)):
            if isinstance(member, ast.Import):
                self._import(module, member)
            elif isinstance(member, ast.Using) and not isinstance(member.parent, ast.Namespace):
                resolve.use(module.scope, member)

    def _import(self, module: CheckedModule, node: ast.Import) -> None:
        if node.path in WITHIN_STANDARD and node.path not in self.files.texts:
            return
        importer = self.files.importer(node.path, Path(node.span.source.name), module.path)
        imported = self._find_module(node.path, importer, node.span)
        if imported is None:
            return
        imported = self._again(imported) if self._links else imported
        module.scope.linked.pop(imported.scope, None)  # all of it is visible
        self._trace.note(MODULE, node.path, str(importer or ""), self._meaning(imported))
        if node.has("__exported") and imported not in module.passed_on:
            module.passed_on.append(imported)
        if imported in module.imports:
            return
        module.see([imported, *imported.reexported()])

    def _meaning(self, imported: CheckedModule) -> str:
        """The key of a module; in a circle of imports it is not known yet."""
        open_modules = [loading.module for loading in self._loading]
        if imported in open_modules or imported.name in self._waiting:
            return CIRCLE + imported.declaration.source.digest
        return imported.key

    def _find_open(self, key: str) -> CheckedModule | None:
        """A module that an import leads back to."""
        for place, loading in enumerate(self._loading):
            if loading.key == key:
                self._loading[-1].lowest = min(self._loading[-1].lowest, place)
                return loading.module
        module, lowest = self._waiting.get(key, (None, 0))
        if module is not None:
            self._loading[-1].lowest = min(self._loading[-1].lowest, lowest)
        return module

    def _find_module(self, name: str, importer: Path | None, span: Span | None) -> CheckedModule | None:
        kept = self.modules.get(name)
        if kept is not None:
            return kept
        source, path = self._trace.module(name, importer, span)
        if source is None:
            return None
        key = str(path) if path is not None else name
        if self._loading and self._loading[-1].key == key:
            self.error("E0326", f"'{name}' imports itself", span)
            return None
        module = self.modules.get(key) or self._find_open(key)
        if module is None:
            module = self._add(key, source, path)
        if key in self.modules:  # else it waits for the others of its circle
            self.modules[name] = module
        return module

    def _parse(self, source: SourceFile, path: Path | None = None) -> ast.ModuleDeclaration:
        if path is not None and is_standard(path):
            return standard.imported(path, self._store)
        return parse_module(
            source, self.reporter, self.options, self._trace.include, dict(self._macros(path))
        )

    def _macros(self, path: Path | None) -> Macros:
        """The user's macros mean nothing in the library and in modules that were compiled with others."""
        macros = self.files.macros(path)
        return tuple(sorted(self.defines.items())) if macros is None else macros


def _extensions(members: list[ast.Declaration]) -> list[ast.Extension]:
    extensions = [member for member in members if isinstance(member, ast.Extension)]
    for space in members:
        if isinstance(space, ast.Namespace):
            extensions += _extensions(space.members)
    return extensions


def _check_given(checker: Checker, scope: ModuleScope, declared: ast.FunctionDeclaration) -> None:
    """Report a function that no module exports with the header that it is declared with: `export float f(float4 n)`
    does not give `extern float f(float3 n);`."""
    candidates = [result.declaration for result in scope.local(declared.name)]
    functions = [
        function
        for function in candidates
        if isinstance(function, ast.FunctionDeclaration) and function.has("export")
    ]
    if any(_agrees(checker, declared, function) for function in functions):
        return
    wanted = signature_text(checker, DeclRef(declared, identity(declared)))
    lines = [signature_text(checker, DeclRef(function, identity(function))) for function in functions]
    message = f"no linked module exports '{wanted}'"
    checker.error(
        "E0704",
        message,
        declared.name_span,
        f"the exported declaration is {'; '.join(lines) or 'no function'}",
    )


def _agrees(checker: Checker, declared: ast.FunctionDeclaration, exported: ast.FunctionDeclaration) -> bool:
    """Whether types and directions are the same, generic parameters in the place of each other."""
    if [*map(type, declared.generics)] != [*map(type, exported.generics)]:
        return False
    renamed: Bindings = dict(zip(exported.generics, map(self_argument, declared.generics)))
    wanted = signature_of(checker, DeclRef(declared, identity(declared)))
    return differentiable.same_signature(wanted, signature_of(checker, DeclRef(exported, renamed)))
