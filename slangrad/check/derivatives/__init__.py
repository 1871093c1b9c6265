"""Which functions and types have derivatives, custom derivatives, and places where a derivative would be lost."""
