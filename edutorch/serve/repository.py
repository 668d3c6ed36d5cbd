"""The folder of models: which are served, and how a new version takes the place of an old one.

`MODELS/name/VERSION/model.onnx`, where VERSION is a positive integer. A version is loaded and
warmed up beside the one that is served, on a thread of its own; only then it takes its place. What
the old one has accepted, it answers.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from .batching import Batcher
from .errors import ModelError, RequestError
from .loaders import CONFIG_FILE, HANDLER_FILE, TrustedHandlers, load_folder
from .logs import log
from .metrics import Metrics
from .served import Served
from .settings import NAME, VERSION, Settings
from .warmup import warm_up

Stamp = tuple[tuple[str, int, int, int], ...]
"""Path, time of the last change, size and inode of each file that a version is made of."""

CLOSE_SECONDS = 0.3


@dataclass
class Version:
    """A version of a model that is served."""

    model: str
    number: int
    served: Served
    batcher: Batcher
    stamp: Stamp


@dataclass
class Model:
    """A folder of versions.

    Args:
        versions: those that are served, by number.
        failures: why others are not, by number.
        rejected: the files that failed, so that they are not tried again until they change.
        unloaded: whether a client has unloaded it.
        required: whether the server is ready only with it: it was there at the start.
        seen: whether its folder has been looked at.
    """

    name: str
    versions: dict[int, Version] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    rejected: dict[int, Stamp] = field(default_factory=dict)
    unloaded: bool = False
    required: bool = False
    seen: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Repository:
    """All models of a folder."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings, self.metrics = settings, metrics
        self.root = settings.models.resolve()
        self.models: dict[str, Model] = {}
        self.trusted = TrustedHandlers(settings.trusted)
        self.runners = ThreadPoolExecutor(settings.workers, "run")
        self.loaders: Executor = ThreadPoolExecutor(1, "load")
        self.started = False
        self.retiring: set[asyncio.Task[None]] = set()
        self.seen: dict[tuple[str, int], Stamp] = {}

    # Looking up ----------------------------------------------------------------------

    def find(self, name: str, version: str | None = None) -> Version:
        """Return a version that is served: without a number the highest.

        Raises: RequestError: there is none (404), or it is not loaded (503).
        """
        model = self.models.get(name)
        if model is None:
            raise RequestError(404, f"there is no model {name[:80]!r}")
        if version is not None and (not VERSION.fullmatch(version)):
            raise RequestError(404, f"{version[:40]!r} is no version: versions are 1, 2, 3, …")
        if not model.versions:
            raise RequestError(503, f"model {name!r} is not loaded: {reason_of(model)}")
        number = max(model.versions) if version is None else int(version)
        if number in model.versions:
            return model.versions[number]
        if number in model.failures:
            raise RequestError(
                503, f"version {number} of {name!r} is not loaded: {model.failures[number]}"
            )
        served = ", ".join(map(str, sorted(model.versions)))
        raise RequestError(404, f"model {name!r} has no version {number}; it has {served}")

    def is_ready(self) -> bool:
        """Return True if every model that was there at the start is served."""
        models = self.models.values()
        return self.started and all(
            model.versions or model.unloaded for model in models if model.required
        )

    # The folder ----------------------------------------------------------------------

    def scan(self) -> Iterator[str]:
        """Yield the names of the models in the folder."""
        for path in sorted(self.root.iterdir()):
            if NAME.fullmatch(path.name) and self.is_inside(path) and path.is_dir():
                yield path.name

    def is_inside(self, path: Path) -> bool:
        """Return True if a path, its links followed, does not leave the folder of models."""
        return Path(os.path.realpath(path)).is_relative_to(self.root)  # resolve raises for loops

    def scan_versions(self, name: str) -> dict[int, Stamp]:
        """Return the versions of a model in the folder, with the state of their files."""
        folder = self.root / name
        result = {}
        for path in folder.iterdir() if folder.is_dir() else ():
            if VERSION.fullmatch(path.name) and path.is_dir():
                result[int(path.name)] = self.stamp(path)
        return result

    def stamp(self, folder: Path) -> Stamp:
        """Return the state of all files that a version is made of."""
        shared = [folder.parent / name for name in (CONFIG_FILE, HANDLER_FILE)]
        entries = []
        for path in [*sorted(folder.rglob("*")), *shared]:
            if path.is_file():
                status = path.stat()
                where = str(path.relative_to(self.root))
                entries.append((where, status.st_mtime_ns, status.st_size, status.st_ino))
        return tuple(entries)

    # Loading -------------------------------------------------------------------------

    async def start(self) -> None:
        """Load all models of the folder."""
        try:
            for name in self.scan():
                self.models[name] = Model(name, required=True)
            for model in list(self.models.values()):
                await self.update(model)
        except OSError as error:  # a file went away while it was looked at
            log("cannot read the folder", logging.ERROR, reason=str(error))
        self.started = True
        log("loaded", models=len(self.models), ready=self.is_ready())

    async def load(self, name: str) -> None:
        """Load all versions of a model anew, as a client asks for.

        Raises: RequestError: there is no such folder (404), or a version fails (400); what was
            served before still is.
        """
        if not NAME.fullmatch(name) or name not in self.scan():
            raise RequestError(404, f"there is no model {name[:80]!r} in the folder")
        model = self.models.setdefault(name, Model(name))
        try:
            await self.update(model, anew=True)
        except OSError as error:
            raise RequestError(400, f"the folder of {name!r} cannot be read: {error}") from error
        if model.failures or not model.versions:
            raise RequestError(400, f"model {name!r} was not loaded: {reason_of(model)}")

    async def unload(self, name: str) -> None:
        """Serve a model no more. What it has accepted, it answers.

        Raises: RequestError: there is no such model (404).
        """
        if name not in self.models:
            raise RequestError(404, f"there is no model {name[:80]!r}")
        model = self.models[name]
        async with model.lock:
            model.unloaded = True
            retired = list(model.versions.values())
            model.versions.clear()
            for version in retired:
                await version.batcher.drain()
        log("unloaded", model=name)

    async def update(self, model: Model, anew: bool = False) -> None:
        """Load what has changed in a model's folder, and retire what is gone.

        Args:
            anew: load what has not changed, too.
        """
        async with model.lock:
            model.unloaded = False
            stamps = self.scan_versions(model.name)
            for number, stamp in sorted(stamps.items()):
                known = model.versions.get(number)
                is_known = known is not None and known.stamp == stamp
                if anew or not (is_known or model.rejected.get(number) == stamp):
                    await self.replace(model, number, stamp)
            for number in list(model.failures):
                if number not in stamps:
                    del model.failures[number]
            for number in list(model.versions):
                # The last one stays: a folder that is being replaced is empty for a moment.
                if number not in stamps and len(model.versions) > 1:
                    self.retire(model.versions.pop(number))
            model.seen = True

    async def replace(self, model: Model, number: int, stamp: Stamp) -> None:
        """Load a version, and let it take the place of the old one if it passes its warm-up."""
        loop = asyncio.get_running_loop()
        where = {"model": model.name, "version": number}
        try:
            served, joins = await loop.run_in_executor(
                self.loaders, self.load_version, self.root / model.name / str(number)
            )
        except Exception as error:  # noqa: BLE001  (a damaged file may raise anything)
            model.failures[number] = text_of(error)
            model.rejected[number] = stamp
            self.metrics.loads.labels("failed").inc()
            log("not loaded", logging.ERROR, reason=text_of(error), **where)
            return
        batcher = Batcher(
            served, self.settings, self.runners, self.metrics.of(model.name, str(number)),
            joins and self.settings.max_batch > 1,
        )  # fmt: skip
        old = model.versions.get(number)
        model.versions[number] = Version(model.name, number, served, batcher, stamp)
        model.failures.pop(number, None)
        model.rejected.pop(number, None)
        self.metrics.loads.labels("loaded").inc()
        log("version loaded", batching=batcher.joins, platform=served.platform, **where)
        if old is not None:
            self.retire(old)

    def load_version(self, folder: Path) -> tuple[Served, bool]:
        """Load a version and warm it up, on the thread for that.

        Raises: ModelError: it cannot be loaded, fails, or has files outside the folder of models.
        """
        for path in [folder, *folder.rglob("*")]:
            if not self.is_inside(path):
                raise ModelError("serve", f"{path.name} is a link that leaves the folder of models")
        return warm_up(load_folder(folder, self.trusted))

    def retire(self, version: Version) -> None:
        """Let a version finish what it has accepted."""
        task = asyncio.get_running_loop().create_task(version.batcher.drain())
        self.retiring.add(task)  # the loop keeps no task alive by itself
        task.add_done_callback(self.retiring.discard)

    # Watching ------------------------------------------------------------------------

    async def watch(self) -> None:
        """Look at the folder again and again, and load what has changed."""
        while True:
            await asyncio.sleep(self.settings.reload)
            try:
                await self.look_again()
            except OSError as error:  # a file went away while it was looked at
                log("cannot read the folder", logging.WARNING, reason=str(error))

    async def look_again(self) -> None:
        """Load the models whose files have changed, and are the same at two looks."""
        names = list(self.scan())
        seen = {}
        for name in names:
            model = self.models.setdefault(name, Model(name))
            for number, stamp in self.scan_versions(name).items():
                seen[name, number] = stamp
            mine = {key: stamp for key, stamp in seen.items() if key[0] == name}
            before = {key: stamp for key, stamp in self.seen.items() if key[0] == name}
            if mine == before and not model.unloaded:
                await self.update(model)
        for name in set(self.models) - set(names):
            if not any(key[0] == name for key in self.seen):
                await self.unload(name)
                del self.models[name]
        self.seen = seen

    async def close(self) -> None:
        """Run what is queued, for a moment, and end the threads.

        The server has waited for its requests before: who asked for what still runs is not there.
        """
        versions = [v for model in self.models.values() for v in model.versions.values()]
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                for version in versions:
                    await version.batcher.drain()
        self.runners.shutdown(wait=False, cancel_futures=True)
        self.loaders.shutdown(wait=False, cancel_futures=True)


def reason_of(model: Model) -> str:
    """Return why a model, or one of its versions, is not served."""
    if model.unloaded:
        return "it was unloaded"
    if not model.seen:
        return "it is being loaded"
    return (
        "; ".join(f"version {n}: {why}" for n, why in model.failures.items()) or "it has no version"
    )


def text_of(error: BaseException) -> str:
    """Return an error's type and text, for a log and a client."""
    return f"{type(error).__name__}: {error}"
