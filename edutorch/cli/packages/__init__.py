"""`python -m edutorch add`: packages written for PyTorch, without PyTorch."""
