"""The tests of kernels make them, also where all other tests run without (EDUTORCH_KERNELS=off)."""

import os

import pytest

from edutorch.backends.kernel_registry import MIN_GENERATED_SIZE, GeneratedSlot, slots


@pytest.fixture(autouse=True)
def kernels_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.environ.get("EDUTORCH_KERNELS") == "off":
        monkeypatch.setenv("EDUTORCH_KERNELS", "wait")
        for slot in slots():
            slot.requested = slot.run is not None  # an earlier test may have asked in vain
            if isinstance(slot, GeneratedSlot) and not slot.is_estimated:
                slot.min_size = slot.min_first = MIN_GENERATED_SIZE
