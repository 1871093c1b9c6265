"""The function of a call or an operator, and the conversions of its arguments."""
