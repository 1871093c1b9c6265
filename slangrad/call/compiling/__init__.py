"""From a bound call to machine code: the text of the kernel, and processes that compile it."""
