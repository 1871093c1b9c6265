"""Values of the host and their bytes: vectors, records, one writer and one reader of memory."""
