"""`python -m edutorch serve MODELS/`: answers requests for models over HTTP.

It speaks the Open Inference Protocol, version 2, as KServe and Triton do, and batches requests.
Needs the extra `serve`.
"""

from __future__ import annotations

from ..errors import missing_extra
from .settings import Settings

__all__ = ["serve"]


def serve(settings: Settings, log_level: str = "info") -> int:
    """Serve a folder of models until a signal comes, and return the exit code.

    Args:
        settings: the folder, and all limits.
        log_level: "debug", "info", "warning" or "error".

    Raises: MissingExtraError: the extra `serve` is not installed.
    """
    try:
        from .run import run
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("starlette", "uvicorn", "prometheus_client"):
            raise
        raise missing_extra("serve", "serve", f"{package} is not installed") from error
    return run(settings, log_level)
