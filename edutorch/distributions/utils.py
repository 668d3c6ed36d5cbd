"""Helper functions, with the names of `torch.distributions.utils`."""

from __future__ import annotations

from .distribution import (
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)  # fmt: skip

__all__ = ["broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits"]
