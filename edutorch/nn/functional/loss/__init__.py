"""Loss functions, by family."""
