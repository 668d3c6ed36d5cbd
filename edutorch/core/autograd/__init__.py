"""The recorded graph, and how it is run backwards (see ../README.md)."""
