"""Writes the pages of the documentation out of the blocks in `edutorch`; see ../README.md."""
