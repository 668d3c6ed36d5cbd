"""Logs: one JSON object a line, with the id of the request."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any

logger = logging.getLogger("edutorch.serve")


class JsonFormatter(logging.Formatter):
    """Formats a record as JSON: time, level, event, and what `extra={"fields": …}` has.

    >>> record = logging.LogRecord("a", logging.INFO, "", 0, "loaded %s", ("mlp",), None)
    >>> json.loads(JsonFormatter().format(record))["event"]
    'loaded mlp'
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line. A line break in a text is escaped, so no request can forge a line."""
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        return json.dumps(entry, default=str)


def start_logging(level: str = "info") -> None:
    """Write the server's records, and uvicorn's warnings, to stderr as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name, lowest in (("edutorch.serve", level), ("uvicorn", "warning")):
        source = logging.getLogger(name)
        source.handlers[:] = [handler]
        source.setLevel(lowest.upper())
        source.propagate = False


def log(
    event: str, level: int = logging.INFO, error: BaseException | None = None, **fields: Any
) -> None:
    """Write a line.

    Args:
        event: what has happened, in words that do not change.
        error: its traceback is added.
        fields: what varies: model, version, request, status.
    """
    if logger.isEnabledFor(level):
        logger.log(level, "%s", event, exc_info=error, extra={"fields": fields})
