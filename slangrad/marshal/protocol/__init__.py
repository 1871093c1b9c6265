"""The questions that the call machinery asks of an argument, and the words of the answers."""
