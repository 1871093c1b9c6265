"""IR types of checked types; the function under construction, and the methods that higher folders implement."""
