"""Store or recompute: from what the reverse sweep needs to a plan of what is kept."""
