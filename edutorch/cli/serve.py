"""`python -m edutorch serve`: answers requests for a folder of models over HTTP."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from ..errors import InvalidValueError


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `serve`."""
    from ..serve.settings import Settings

    parser.add_argument("models", metavar="MODELS", type=Path,
                        help="the folder: NAME/VERSION/model.onnx, .edu or .pt")  # fmt: skip
    number = parser.add_argument
    number("--host", help="default 127.0.0.1, or 0.0.0.0 where $PORT is set")
    number("--port", type=int, help="default $PORT, or 8000; 0: any free one")
    for option, metavar, text in NUMBERS:
        default = getattr(Settings, option)
        number(
            f"--{option.replace('_', '-')}", type=type(default), default=default, metavar=metavar,
            help=f"{text} (default {default:g})",
        )  # fmt: skip
    number("--reload", nargs="?", type=float, const=1.0, default=0.0, metavar="SECONDS",
           help="load what changes in MODELS, looked at so often (default 1 s)")  # fmt: skip
    number("--allow-control", action="store_true", help="clients may list, load and unload models")
    number("--allow-host", action="append", default=[], metavar="NAME",
           help="a further name by which the server is called; '*': any")  # fmt: skip
    number("--trust-handler", action="append", default=[], type=Path, metavar="FILE",
           help="a handler.py that may run; all others do not")  # fmt: skip
    number("--manifest", choices=("kserve", "triton", "cloudrun", "container"),
           help="serve nothing: write files to run the models elsewhere")  # fmt: skip
    number("-o", "--output", type=Path, default=Path("deploy"), metavar="FOLDER",
           help="where --manifest writes to (default deploy)")  # fmt: skip
    number("--log-level", choices=("debug", "info", "warning", "error"), default="info")


NUMBERS = (
    ("max_batch", "ROWS", "the most rows that requests share a call with; 1: no batching"),
    ("batch_delay", "SECONDS", "how long a request waits for others"),
    ("queue", "N", "the most requests that wait for a model, then 503"),
    ("workers", "N", "threads that run models"),
    ("timeout", "SECONDS", "the deadline of a request, then 504"),
    ("max_body", "BYTES", "the largest body, then 413"),
    ("body_timeout", "SECONDS", "in which headers and body arrive, then 408"),
    ("drain", "SECONDS", "after SIGTERM, connections are told to close so long"),
)


def serve(options: argparse.Namespace) -> int:
    """Serve a folder of models.

    Raises: InvalidValueError: there is no such folder, or a number makes no sense.
    """
    from .. import serve as serving
    from ..serve.settings import Settings

    if not options.models.is_dir():
        raise InvalidValueError(
            "serve", f"there is no folder {str(options.models)!r}",
            hint="it holds NAME/VERSION/model.onnx, model.edu or model.pt",
        )  # fmt: skip
    given_port = os.environ.get("PORT", "")
    if given_port and not given_port.isdigit():
        raise InvalidValueError("serve", f"$PORT is {given_port!r}, not a number")
    port = options.port if options.port is not None else int(given_port or 8000)
    host = options.host or ("0.0.0.0" if given_port else "127.0.0.1")
    limits = {option: getattr(options, option) for option, _, _ in NUMBERS}
    for option, value in limits.items():
        if not 0 <= value < 1e15 or (value == 0 and option not in ("batch_delay", "drain")):
            raise InvalidValueError("serve", f"--{option.replace('_', '-')} is {value:g}")
    settings = Settings(
        options.models, host, port, reload=options.reload, allow_control=options.allow_control,
        allow_hosts=tuple(options.allow_host), trusted=tuple(options.trust_handler), **limits,
    )  # fmt: skip
    if options.manifest:
        from ..serve.manifests import write_manifest

        for path in write_manifest(options.manifest, settings, options.output):
            print(f"written: {path}")
        return 0
    return serving.serve(settings, options.log_level)
