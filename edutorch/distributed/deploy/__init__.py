"""Texts that run a training on a cluster (see README.md)."""

from __future__ import annotations

from .training_job import TrainingJob
from .write import MANIFESTS, write_manifest

__all__ = ["MANIFESTS", "TrainingJob", "write_manifest"]
