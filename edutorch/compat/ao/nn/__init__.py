"""`torch.ao.nn`: layers with integer weights."""

from __future__ import annotations
