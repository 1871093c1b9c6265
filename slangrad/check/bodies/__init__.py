"""Everything that bodies and headers of declarations are made of."""
