"""A checked module, and the modules and names that it sees.

In: the files of a module, parsed and declared.   Out: its imports with those that they export again; open declarations
that give way to exports of other modules.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from pathlib import Path

from slangrad.base.module_file import Origin
from slangrad.base.records import record
from slangrad.base.source import SourceFile
from slangrad.check.names.scopes import ModuleScope
from slangrad.check.texts.linking import can_be_linked
from slangrad.syntax import ast


@record
class CheckedModule:
    """A checked module: its main file, all of its files, and its scope."""

    name: str
    declaration: ast.ModuleDeclaration
    scope: ModuleScope
    files: list[ast.ModuleDeclaration] = field(default_factory=list)
    imports: list[CheckedModule] = field(default_factory=list)
    path: Path | None = None
    added: SourceFile | None = None  # one more file, see `with_text`
    origin: Origin | None = None
    key: str = ""  # the digest of all texts that it was made from, those of its imports too
    passed_on: list[CheckedModule] = field(default_factory=list)  # those of `__exported import`

    def with_imports(self) -> list[CheckedModule]:
        """The module, what it imports, what that imports, and so on."""
        modules = [self]
        for module in modules:  # grows while it is read
            modules += [imported for imported in module.imports if imported not in modules]
        return modules

    @property
    def members(self) -> list[ast.Declaration]:
        """The declarations of all files."""
        return [member for part in self.files for member in part.members]

    def see(self, others: Iterable[CheckedModule]) -> None:
        """Import modules that are not imported yet."""
        for visible in others:
            if visible not in self.imports:
                self.imports.append(visible)
                self.scope.imports.append(visible.scope)

    def reexported(self, seen: tuple[CheckedModule, ...] = ()) -> list[CheckedModule]:
        """The modules that this one imports with `__exported import`, but for those that were seen."""
        if self in seen:
            return []
        direct = list(self.passed_on)
        return direct + [deeper for imported in direct for deeper in imported.reexported((*seen, self))]

    def take_out(self, exported: Iterable[str]) -> list[ast.Declaration]:
        """Take out the declarations that exported names replace, and give them."""
        replaced = [member for member in self.members if can_be_linked(member, exported)]
        for part in self.files:
            part.members = [member for member in part.members if member not in replaced]
        return replaced
