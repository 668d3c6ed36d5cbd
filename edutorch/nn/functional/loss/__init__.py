"""Loss functions, one module per family."""
