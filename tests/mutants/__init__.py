"""Mutation testing: which planted faults does a test detect? `python -m tests.mutants`."""
