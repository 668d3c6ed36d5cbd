"""These tests need JAX: without it all of them are skipped, with the reason."""

from __future__ import annotations

import importlib.util

import pytest


def pytest_collection_modifyitems(items):
    if importlib.util.find_spec("jax") is None:
        here = [item for item in items if "/tests/xla/" in str(item.path).replace("\\", "/")]
        for item in here:
            item.add_marker(pytest.mark.skip(reason='jax is missing: pip install "edutorch[jax]"'))
