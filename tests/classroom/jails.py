"""Jails for tests: they are skipped where a machine has not all walls."""

from __future__ import annotations

import pytest

from edutorch.classroom.jail import JailFactory, MissingWalls
from edutorch.classroom.jail.settings import Settings
from edutorch.errors import MissingExtraError


def open_factory(settings: Settings) -> JailFactory:
    """Start the parent of jails, or skip the test with what is missing."""
    try:
        return JailFactory(settings)
    except (MissingWalls, MissingExtraError) as error:
        pytest.skip(f"no jail can be built here: {error}")
