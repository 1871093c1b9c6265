"""IR to IR: requests for derivatives (`jvp @f`, `vjp @f`) become calls of functions made here."""
