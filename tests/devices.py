"""Runs tests on every device: NumPy, and the strict device, which refuses what a GPU would.

A test that asks for `device` runs once per device, and new tensors go there. A
whole file does so with

    pytestmark = pytest.mark.usefixtures("device")

EDUTORCH_TEST_DEVICES chooses other devices: "cpu" alone, or "cpu,cuda" on a machine
with a GPU.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import edutorch

DEVICES = os.environ.get("EDUTORCH_TEST_DEVICES", "cpu,strict").split(",")

OTHER = DEVICES[-1]
"""The device that is compared with the CPU."""

IS_EXACT = OTHER == "strict"
"""Whether it computes with NumPy: each bit is the same. A GPU adds in another order."""


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a device, which is the default one while the test runs."""
    edutorch.set_default_device(request.param)
    yield request.param
    edutorch.set_default_device("cpu")
