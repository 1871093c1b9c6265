"""The entrance: a text becomes a Module.

In: a SourceFile, a Reporter, Options.   Out: a Module, whatever the text; its errors are in the Reporter.

    parse_module(SourceFile("a.slang", "float f(float x) { return x; }"), reporter)   ->   Module [Function f]
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from slangrad.base.compiling import compiling
from slangrad.base.diagnostics import Reporter
from slangrad.base.options import Limits, Options
from slangrad.base.source import SourceFile, Span
from slangrad.syntax import ast
from slangrad.syntax.lexing.preprocess import Preprocessor, Resolver
from slangrad.syntax.lexing.tokens import Token
from slangrad.syntax.parsing.cursor import GivenUp
from slangrad.syntax.parsing.declarations import DeclarationParser
from slangrad.syntax.saved import Surroundings, unpack_tokens


def parse_module(
    source: SourceFile,
    reporter: Reporter,
    options: Options | None = None,
    resolver: Resolver | None = None,
    defines: Mapping[str, str] | None = None,
    around: Surroundings | None = None,
) -> ast.ModuleDeclaration:
    """Parse one text with all it includes. Never raises on account of the text. With `around`, which is filled, the
    bodies of functions are `Unparsed`, for texts without errors and without includes.
    """
    limits = (options or Options()).limits
    start = Span(source, 0, 0)
    module = ast.ModuleDeclaration(Span(source, 0, len(source.text)), source.name, start, source, [], None, 0)
    with compiling():
        preprocessor = Preprocessor(reporter, limits, resolver, defines or {})
        tokens = preprocessor.run(source)
        module.language = preprocessor.language
        parser = DeclarationParser(tokens, reporter, limits, module, preprocessor.language)
        if around is not None:
            around.language, around.known_types = parser.language, parser.known_types
            parser.around = around
        with suppress(GivenUp):
            _parse_all(parser, module)
    return module


def parse_body(body: ast.Unparsed, owner: ast.Declaration) -> ast.Block:
    """The body of a function of the library."""
    around = body.around
    tokens = unpack_tokens(body.tokens, around.source)
    end = Token("end", "", around.source, body.span.end, body.span.end)
    parser = DeclarationParser([*tokens, end], Reporter(), Limits(), owner, around.language)
    parser.known_types = set(around.known_types)
    return parser.parse_block()


def _parse_all(parser: DeclarationParser, module: ast.ModuleDeclaration) -> None:
    while not parser.at("end"):
        for declaration in parser.parse_declarations():
            _add(module, declaration)
        if parser.at("}"):
            parser.error("E0207", "this '}' closes nothing")
            parser.advance()


def _add(module: ast.ModuleDeclaration, declaration: ast.Declaration) -> None:
    """`module x;` names the module; everything else is a member."""
    if isinstance(declaration, ast.IncludeModule) and declaration.keyword == "module":
        module.module_name = declaration.path
    else:
        module.members.append(declaration)
