"""The commands of `python -m edutorch`."""
