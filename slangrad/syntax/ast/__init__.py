"""Every AST node, with the Slang form it stands for; this file gathers them under one name.

The parser makes them; `check` fills `Expression.type`, `.ref`, `.conversion` and `Declaration.checked`, each
once; nothing else is written later. Types are expressions, since only the checker can tell them from values.
In type position the parser makes `ArrayType`, `PointerType` and so on. What syntax leaves to the checker:

    Paren(type) then call, `(T)(x)`     Call(Paren(T), [x]) is a conversion
    T[4](a, b), T[4]() in an expression Index(T, [4]) names an array type
    A.B, A::B                           Member, whether A is a namespace, a type or a value
    T{a, b}                             Cast(T, InitializerList)
"""

from slangrad.syntax.ast.declarations import *  # noqa: F403
from slangrad.syntax.ast.expressions import *  # noqa: F403
from slangrad.syntax.ast.nodes import *  # noqa: F403
from slangrad.syntax.ast.statements import *  # noqa: F403
