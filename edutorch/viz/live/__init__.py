"""A training loop watched while it runs."""
