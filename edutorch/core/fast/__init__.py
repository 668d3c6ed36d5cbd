"""Faster forms of the op call and of backward. Not for first reading: see `dispatch.py`."""
