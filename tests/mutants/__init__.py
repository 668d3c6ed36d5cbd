"""Faults planted one at a time: which does a test notice? `python -m tests.mutants`."""
