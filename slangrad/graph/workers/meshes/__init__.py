"""Workers on named axes, the shards of tensors that they hold, and the operators that exchange data."""
