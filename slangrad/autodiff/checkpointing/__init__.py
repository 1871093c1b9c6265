"""Store or recompute: from the values that the reverse sweep needs to a plan of residuals."""
