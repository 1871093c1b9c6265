"""Arguments without memory of their own: parameters, enums, and values that the kernel makes."""
