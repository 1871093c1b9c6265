"""Files that are whole or not there, the store of entries, and the compiler's identity in their keys."""
