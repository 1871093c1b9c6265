"""What types have and promise: members, witnesses, differential types."""
