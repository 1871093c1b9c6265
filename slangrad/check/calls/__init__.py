"""Which function a call or an operator means, and what its arguments become."""
