"""Modules that exist only for compatibility with PyTorch: `edutorch.mps`, `edutorch.types`, …

This folder is on the search path of the package `edutorch`, so that a file here is imported as
`edutorch.<name>`. Nothing in here is needed to understand the rest.
"""
