"""Faster forms of the op call and of backward. Not for first reading: dispatch.py says what they mean."""
