"""Modules that exist because PyTorch has them: `edutorch.mps`, `edutorch.types`, and others.

This folder is on the search path of the package `edutorch`, so that a file here is imported
as `edutorch.<name>`. Nothing in here is needed to understand the rest."""
