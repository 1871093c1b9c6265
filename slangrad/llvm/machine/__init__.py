"""The machine: its name and features, and LLVM text as machine code at an address."""
