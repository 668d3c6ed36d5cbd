"""Models of others, from the wheels that carry them: `make test-export` installs these.

Where one is not installed its tests are skipped, unless EDUTORCH_REQUIRE_MODELS=1 makes its
absence a failure (as `make test-export` does).
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest


def wheel_folder(package: str) -> Path:
    """Return the folder of a package, which is not imported; skip where it is missing."""
    spec = importlib.util.find_spec(package)
    if spec is not None and spec.submodule_search_locations:
        return Path(spec.submodule_search_locations[0])
    if os.environ.get("EDUTORCH_REQUIRE_MODELS") == "1":
        pytest.fail(f"EDUTORCH_REQUIRE_MODELS=1, but {package} is not installed", pytrace=False)
    pytest.skip(f"{package}, which carries the model, is not installed")
