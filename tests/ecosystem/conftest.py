"""These tests need the second environment, where `import torch` means edutorch.

`make test-ecosystem` runs them there. Elsewhere each file is skipped, with that as its reason.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REASON = "it runs in the second environment: make test-ecosystem"


class SkippedModule(pytest.Module):
    """A test file that is not imported."""

    def collect(self) -> Iterator[pytest.Item]:
        pytest.skip(REASON, allow_module_level=True)


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    if any(type(finder).__module__ == "edutorch.alias" for finder in sys.meta_path):
        return None  # pytest's own way
    return SkippedModule.from_parent(parent, path=module_path)
