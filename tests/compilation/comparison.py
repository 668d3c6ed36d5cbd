"""Functions compiled op by op, to be compared with themselves."""

from __future__ import annotations

import warnings

import edutorch as torch


def compiled(function, **settings):
    return torch.compile(function, backend="aot_eager", **settings)


def same_as(function, *calls, **settings):
    """Call the function and its compiled form alike; return the compiled form."""
    other = compiled(function, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for make in calls:
            ours, theirs = make(), make()
            assert repr(other(*ours)) == repr(function(*theirs))
            assert repr(ours) == repr(theirs)  # what it did to its arguments
    return other
