"""What is done to networks from outside: their gradients, their weights, their inputs."""

from __future__ import annotations

from . import rnn

__all__ = ["rnn"]
