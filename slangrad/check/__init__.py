"""AST to checked AST: names, types, generics, interfaces, differentiability."""
