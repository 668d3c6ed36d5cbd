"""`torch.hub`: models from folders with a `hubconf.py`, and weights from files.

    model = torch.hub.load("path/to/repository", "resnet18", source="local")
    weights = torch.hub.load_state_dict_from_url("file:///data/resnet18-f37072fd.pth")

Nothing is fetched over HTTP. A file that a program wants from there is taken from the hub's folder
if somebody has put it there; otherwise the error says which file goes where. Its name may end with
the first digits of its SHA-256 sum, as in the example: these are compared.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

from edutorch.errors import EdutorchError, InvalidValueError
from edutorch.serialization import load as load_file
from edutorch.utils.atomic_files import read_bytes, write_atomically

__all__ = [
    "download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url",
    "set_dir",
]  # fmt: skip

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
"""The digits of the SHA-256 sum in a file name: `resnet18-f37072fd.pth`."""

ENV_TORCH_HOME, ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR = "TORCH_HOME", "XDG_CACHE_HOME", "~/.cache"
MODULE_HUBCONF, VAR_DEPENDENCY = "hubconf.py", "dependencies"

_hub_dir: str | None = None


class NotFetchedError(EdutorchError, RuntimeError, OSError):
    """A file of the network is not in its place: nothing is fetched."""


class HashError(EdutorchError, RuntimeError):
    """A file is not the one that its name promises."""


class HubError(EdutorchError, RuntimeError):
    """A repository has no such model, or needs packages that are not installed."""


def get_dir() -> str:
    """Return the hub's folder: `$TORCH_HOME/hub`, by default `~/.cache/torch/hub`."""
    if _hub_dir is not None:
        return _hub_dir
    return os.path.join(_get_torch_home(), "hub")


def _get_torch_home() -> str:
    cache = os.getenv(ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR)
    return os.path.expanduser(os.getenv(ENV_TORCH_HOME, os.path.join(cache, "torch")))


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the hub's folder for this process."""
    global _hub_dir
    _hub_dir = os.path.expanduser(os.fspath(d))


# Files --------------------------------------------------------------------------------------------


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Copy a file from an address to a path, and compare its SHA-256 sum.

    Args:
        url: an address of a file ("file:///data/x.pth"), or one that fsspec knows ("s3://…").
        dst: the path. It is written in one step: never half, and not with a wrong sum.
        hash_prefix: how the sum begins.

    Raises: RuntimeError: an address of the web, or another sum.
    """
    if is_web_address(url):
        raise not_fetched("hub.download_url_to_file", url, Path(dst), hash_prefix)
    data = read_bytes(local_path(url))
    check_hash_prefix("hub.download_url_to_file", url, data, hash_prefix)
    write_atomically(dst, data)


def load_state_dict_from_url(
    url: str, model_dir: str | None = None, map_location: Any = None, progress: bool = True,
    check_hash: bool = False, file_name: str | None = None, weights_only: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Return the state dict in a file of the hub's folder; it is copied there if it is missing.

    Args:
        url: the address of the file. One of the web is not asked for: the file has to be there.
        model_dir: the folder, by default `checkpoints` in `get_dir()`.
        map_location, weights_only: see `load`. Files are always read without running code in them.
        check_hash: whether the name must contain a hash. One of 8 digits or more is always checked.
        file_name: the name in the folder, by default that of the address.

    Raises: RuntimeError: the file is missing and on the web, or its hash is another.
    """
    op = "hub.load_state_dict_from_url"
    folder = Path(os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir)
    name = file_name or os.path.basename(urlparse(url).path)
    path = folder / name
    match = HASH_REGEX.search(name)
    digits = match[1] if match and (check_hash or len(match[1]) >= 8) else None
    if not path.is_file():
        if is_web_address(url):
            raise not_fetched(op, url, path, digits)
        folder.mkdir(parents=True, exist_ok=True)
        download_url_to_file(url, str(path), digits, progress)
    elif digits:
        check_hash_prefix(op, str(path), path.read_bytes(), digits)
    return load_file(str(path), map_location=map_location)


def is_web_address(url: str) -> bool:
    """Return True for http, https and ftp addresses."""
    return urlparse(url).scheme in ("http", "https", "ftp")


def local_path(url: str) -> str:
    """Return the path of a file:// address; others are returned as they are."""
    parts = urlparse(url)
    if parts.scheme != "file":
        return url
    return url2pathname(parts.path if parts.netloc in ("", "localhost") else url[5:])


def not_fetched(op: str, url: str, path: Path, hash_prefix: str | None) -> NotFetchedError:
    """Make the error that says which file to put where."""
    return NotFetchedError(
        op, "nothing is fetched from the web, and the file is not there yet",
        {"address": url, "path": path, "sha256": f"{hash_prefix or '(unknown)'}…"},
        "fetch it yourself, and put it at this path",
    )  # fmt: skip


def check_hash_prefix(op: str, file: str, data: bytes, hash_prefix: str | None) -> None:
    """Raise HashError unless the SHA-256 sum of the data begins with these digits."""
    digest = hashlib.sha256(data).hexdigest()
    if hash_prefix and not digest.startswith(hash_prefix):
        raise HashError(
            op, f'invalid hash value (expected "{hash_prefix}", got "{digest}")',
            {"file": file, "bytes": len(data)},
            "the file is incomplete, or another one: fetch it again",
        )  # fmt: skip


# Repositories -------------------------------------------------------------------------------------


def load(
    repo_or_dir: str, model: str, *args: Any, source: str = "github", trust_repo: Any = "check",
    force_reload: bool = False, verbose: bool = True, skip_validation: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    """Return what a function in a repository's `hubconf.py` returns.

    Args:
        repo_or_dir: a folder; with source="github" "owner/name:branch", of which a copy has to be
            in the hub's folder.
        model: the name of the function.
        args, kwargs: what it is called with.
        source: "local" or "github".

    Raises: ValueError: an unknown source. RuntimeError: there is no such repository or function.
    """
    return entry_point(find_repository(repo_or_dir, source), model)(*args, **kwargs)


def list(
    github: str, force_reload: bool = False, skip_validation: bool = False,
    trust_repo: Any = "check", verbose: bool = True, *, source: str = "",
) -> Any:  # fmt: skip
    """Return the names of the functions in a repository's `hubconf.py`.

    Args:
        github: a folder, or "owner/name:branch".
    """
    folder = find_repository(github, source or guess_source(github))
    with imported_hubconf(folder) as module:
        return [name for name, value in vars(module).items()
                if callable(value) and not name.startswith("_")]  # fmt: skip


def help(
    github: str, model: str, force_reload: bool = False, skip_validation: bool = False,
    trust_repo: Any = "check", *, source: str = "",
) -> str | None:  # fmt: skip
    """Return the documentation of a function in a repository's `hubconf.py`."""
    return entry_point(find_repository(github, source or guess_source(github)), model).__doc__


def guess_source(repository: str) -> str:
    """Return "local" for a folder that exists, otherwise "github"."""
    return "local" if os.path.isdir(repository) else "github"


def find_repository(repository: str, source: str) -> Path:
    """Return the folder of a repository.

    Raises: InvalidValueError: an unknown source. HubError, NotFetchedError: it is not there.
    """
    if source not in ("github", "local"):
        raise InvalidValueError(
            "hub.load", f'Unknown source: "{source}". Allowed values: "github" | "local".'
        )
    if source == "local":
        folder = Path(os.path.expanduser(repository))
        if not (folder / MODULE_HUBCONF).is_file():
            raise HubError(
                "hub.load", f"there is no {MODULE_HUBCONF} in this folder",
                {"folder": os.path.abspath(folder)},
            )  # fmt: skip
        return folder
    match = re.fullmatch(r"([^/:]+)/([^/:]+)(?::(.+))?", repository)
    if match is None:
        raise InvalidValueError(
            "hub.load", f"expected owner/name or owner/name:branch, got {repository!r}",
            hint='a folder is loaded with source="local"',
        )  # fmt: skip
    owner, name, branch = match.groups()
    branches = [branch.replace("/", "_")] if branch else ["main", "master"]
    folders = [Path(get_dir()) / f"{owner}_{name}_{part}" for part in branches]
    for folder in folders:
        if (folder / MODULE_HUBCONF).is_file():
            return folder
    raise NotFetchedError(
        "hub.load", "nothing is fetched from the web, and the repository is not there yet",
        {"repository": repository, "path": folders[0]},
        'unpack it there yourself, or load a folder: hub.load("folder", model, source="local")',
    )  # fmt: skip


@contextmanager
def on_path(folder: Path) -> Iterator[None]:
    """Put a folder first on the search path of modules, for the time of a block."""
    path = os.path.abspath(folder)
    sys.path.insert(0, path)
    try:
        yield
    finally:
        sys.path.remove(path)


@contextmanager
def imported_hubconf(folder: Path) -> Iterator[ModuleType]:
    """Import the `hubconf.py` of a folder, whose modules it finds, for the time of a block."""
    spec = importlib.util.spec_from_file_location("hubconf", folder / MODULE_HUBCONF)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with on_path(folder):
        spec.loader.exec_module(module)
        yield module


def entry_point(folder: Path, model: str) -> Callable[..., Any]:
    """Return a function of a repository's `hubconf.py`, which still finds its modules when called.

    Raises: HubError: there is no such function, or packages are missing.
    """
    if not isinstance(model, str):
        raise InvalidValueError(
            "hub.load", "Invalid input: model should be a string of function name"
        )
    with imported_hubconf(folder) as module:
        needed = getattr(module, VAR_DEPENDENCY, ())
        missing = [name for name in needed if importlib.util.find_spec(name) is None]
        if missing:
            raise HubError(
                "hub.load", f"Missing dependencies: {', '.join(missing)}", {"folder": folder},
                f"pip install {' '.join(missing)}",
            )  # fmt: skip
        function = getattr(module, model, None)
        if not callable(function):
            near = get_close_matches(model, vars(module), 1)
            raise HubError(
                "hub.load", f"Cannot find callable {model} in hubconf", {"folder": folder},
                f"did you mean {near[0]}?" if near else "hub.list(folder) names them",
            )  # fmt: skip

    def call(*args: Any, **kwargs: Any) -> Any:
        with on_path(folder):
            return function(*args, **kwargs)

    call.__doc__, call.__name__ = function.__doc__, model
    return call
