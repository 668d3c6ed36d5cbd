"""The errors of bringing a model in."""

from __future__ import annotations

from ...errors import NotHereError
from ...serialization.safe_classes import CheckpointError

HIGHEST_OPSET = 28
LOWEST_OPSET = 7


class ModelFileError(CheckpointError):
    """A model file is damaged, contradicts itself, or refers to files outside its folder."""


class UnsupportedOpError(NotHereError):
    """A model uses an op, an opset or a dtype that has no counterpart here."""


def damaged(what: str, **arguments: object) -> ModelFileError:
    """Make the error for a model file that cannot be what its author wrote."""
    hint = "the file was cut short or changed; export the model again, or run onnx.checker on it"
    return ModelFileError("onnx.load", what, arguments, hint)


def unsupported(op_type: str, node: str, what: str, hint: str | None = None) -> UnsupportedOpError:
    """Make the error for an op that cannot be brought in, with the name of its node."""
    return UnsupportedOpError("onnx.load", f"{op_type} (node {node!r}): {what}", hint=hint)
