"""Operations on values, independent of expressions."""
