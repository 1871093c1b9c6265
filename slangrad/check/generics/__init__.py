"""Type arguments: put in, compared, found out."""
