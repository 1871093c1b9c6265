"""All AST nodes, with their Slang forms, under one name.

The parser makes them; `check` fills `Expression.type`, `.ref`, `.conversion` and `Declaration.checked`, each once;
other fields never change. Types are expressions, because only the checker can distinguish them from values. In type
position the parser makes `ArrayTypeExpression` and so on. Forms that the checker resolves:

    Paren(type) then call, `(T)(x)`     Call(Paren(T), [x]) is a conversion
    T[4](a, b), T[4]() in an expression Index(T, [4]) names an array type
    A.B, A::B                           Member, whether A is a namespace, a type or a value
    T{a, b}                             Cast(T, InitializerList)
"""

from slangrad.syntax.ast.declarations import *  # noqa: F403
from slangrad.syntax.ast.expressions import *  # noqa: F403
from slangrad.syntax.ast.nodes import *  # noqa: F403
from slangrad.syntax.ast.statements import *  # noqa: F403
