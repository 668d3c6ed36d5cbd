"""PyTorch as the oracle: its results are what the tests expect.

It is needed only for tests. Where it is not installed these tests are skipped,
unless EDUTORCH_REQUIRE_TORCH=1 makes its absence a failure (as in CI).
"""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest


def require_torch() -> Any:
    """Return the module `torch`; skip the calling test (or file) where it is missing."""
    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        if os.environ.get("EDUTORCH_REQUIRE_TORCH") == "1":
            pytest.fail("EDUTORCH_REQUIRE_TORCH=1, but PyTorch is not installed", pytrace=False)
        pytest.skip("PyTorch, the oracle, is not installed", allow_module_level=True)
    if torch.get_num_threads() > 1:
        torch.set_num_threads(1)  # threads that wait for a few numbers keep the other tests waiting
    return torch
