"""Memory as LLVM text: loads, stores, atomics, tapes, variables."""
