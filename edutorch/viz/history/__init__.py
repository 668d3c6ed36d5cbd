"""The steps of a run, kept and compared."""
