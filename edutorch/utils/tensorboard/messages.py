"""TensorBoard's protocol buffer messages, imported from tensorboardX on first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ...errors import missing_extra

__all__ = ["message"]


def message(name: str) -> Any:
    """Return a message class: "summary.Summary" is `tensorboardX.proto.summary_pb2.Summary`.

    Raises: MissingExtraError: tensorboardX is not installed.
    """
    module, _, message_name = name.partition(".")
    try:
        return getattr(import_module(f"tensorboardX.proto.{module}_pb2"), message_name)
    except ModuleNotFoundError as error:
        raise missing_extra("logging", "SummaryWriter", f"{error.name} is not installed") from error
