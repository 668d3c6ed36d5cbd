"""Runs PyTorch's samples: a process per op, each with a time of its own, and a table in the end.

    python -m tests.slow.sample_runner --first 3 --write samples.json add nn.functional.conv2d

A name has a process so that one that hangs or crashes is reported and the others go on.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import gc
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db

from tests.slow import sample_exclusions as exclusions
from tests.slow.sample_checks import DTYPES, OpChecker, first
from tests.slow.sample_modules import ModuleChecker
from tests.slow.sample_translation import NAMES, NoCounterpartError, counterpart, lookup, seeded

import edutorch  # isort: skip

with contextlib.suppress(ImportError):
    pass  # here once, not in each process

NAME_TIMEOUT = 300
"""Seconds that the samples of one name may take."""


class Entry(NamedTuple):
    """A name of PyTorch's tables with its variants."""

    kind: str
    name: str
    infos: tuple[Any, ...]


class Result(NamedTuple):
    """What came of a name."""

    kind: str
    name: str
    samples: int
    checks: int
    failures: list[str]
    excluded: dict[str, int]
    answers: dict[str, list[str]]


def entries() -> Iterator[Entry]:
    """Yield the ops and modules that edutorch has by PyTorch's names."""
    by_name: dict[str, list[Any]] = collections.defaultdict(list)
    for info in op_db:
        by_name[info.name].append(info)
    for name, infos in sorted(by_name.items()):
        if counterpart(name) is not None:
            yield Entry("op", name, tuple(infos))
    for info in module_db:
        if lookup(edutorch.nn, info.module_cls.__name__) is not None:
            yield Entry("module", info.module_cls.__name__, (info,))


def dtypes_of(entry: Entry, info: Any) -> Iterator[torch.dtype]:
    """Yield the types that PyTorch's table has samples of."""
    supported = info.supported_dtypes("cpu") if entry.kind == "op" else info.dtypes
    yield from (dtype for dtype in DTYPES if dtype in supported)


def check_name(entry: Entry, limit: int | None, progress: Any) -> Result:
    """Make all checks of one name."""
    result = Result(
        entry.kind, entry.name, 0, 0, [], collections.Counter(), collections.defaultdict(list)
    )
    samples = checks = 0
    checker_class = OpChecker if entry.kind == "op" else ModuleChecker
    for info in entry.infos:
        variant = getattr(info, "variant_test_name", "")
        try:
            checker = checker_class(info)
        except NoCounterpartError as missing:
            result.failures.append(f"{variant} forward: no {missing}")
            continue
        for dtype in dtypes_of(entry, info):
            with seeded():
                drawn = first(checker.samples(dtype, checker.differentiates(dtype)), limit)
            for index, sample in enumerate(drawn):
                where = " ".join(filter(None, (variant, NAMES[dtype], f"#{index}")))
                progress(where)
                samples += 1
                try:
                    for check, failure in checker.check(sample):
                        checks += 1
                        if check == "shape" and entry.name in exclusions.UNINITIALIZED:
                            result.excluded[exclusions.CHANCE] += 1
                        if failure is None:
                            continue
                        reason = exclusions.reason(exclusions.KNOWN, entry.name, check, failure)
                        if reason:
                            result.excluded[reason] += 1
                        else:
                            result.failures.append(f"{where} {check}: {failure}")
                except NoCounterpartError as missing:
                    result.excluded[str(missing)] += 1
        progress("bad calls")
        for answer, shown in checker.bad_calls():
            known = exclusions.reason(exclusions.KNOWN_ANSWERS, entry.name, answer, shown)
            result.answers["known" if known else answer].append(shown)
    return result._replace(samples=samples, checks=checks)


def run_apart(entry: Entry, limit: int | None, folder: str) -> tuple[int, Path]:
    """Start a process for a name; return its id and the file that it will write."""
    path = Path(folder) / f"{entry.kind}-{entry.name}.json"
    child = os.fork()
    if child:
        return child, path
    code = 1
    try:
        warnings.simplefilter("ignore")
        trail = open(path.with_suffix(".at"), "w")  # noqa: SIM115  (the process ends with it)

        def progress(where: str) -> None:
            trail.seek(0)
            trail.write(f"{where:80}")
            trail.flush()

        path.write_text(json.dumps(check_name(entry, limit, progress)._asdict()))
        code = 0
    except BaseException:  # noqa: BLE001  (the parent reports it)
        path.with_suffix(".error").write_text(traceback.format_exc())
    finally:
        os._exit(code)


def collect(entry: Entry, path: Path, status: int | None) -> Result:
    """Read what a name's process has left."""
    if path.exists():
        return Result(**json.loads(path.read_text()))
    at = path.with_suffix(".at")
    where = at.read_text().strip() if at.exists() else "the start"
    error = path.with_suffix(".error")
    cause = "no answer in time" if status is None else f"ended with status {status}"
    if error.exists():
        cause = " | ".join(error.read_text().strip().splitlines()[-3:])
    return Result(entry.kind, entry.name, 0, 0, [f"{where}: {cause}"], {}, {})


def run(
    chosen: list[Entry], limit: int | None, processes: int, timeout: float = NAME_TIMEOUT
) -> Iterator[Result]:
    """Yield the results of names, as they come, each from a process of its own."""
    waiting = collections.deque(chosen)
    gc.freeze()  # no child touches what all of them share
    running: dict[int, tuple[Entry, Path, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            while waiting and len(running) < processes:
                entry = waiting.popleft()
                child, path = run_apart(entry, limit, folder)
                running[child] = entry, path, time.monotonic()
            time.sleep(0.01)
            for child, (entry, path, start) in list(running.items()):
                done, status = os.waitpid(child, os.WNOHANG)
                if done == 0 and time.monotonic() - start < timeout:
                    continue
                if done == 0:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                del running[child]
                yield collect(entry, path, status if done else None)


def main() -> None:
    """Run by hand: some names or all, with the failures as they come."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--first", type=int, default=None, help="samples per op and type")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=NAME_TIMEOUT)
    parser.add_argument("--start", help="the name to start at, in alphabetical order")
    parser.add_argument("--write", type=Path, help="a file for all results, as JSON")
    parser.add_argument("--shown", type=int, default=3, help="failures printed of each name")
    options = parser.parse_args()
    chosen = [entry for entry in entries() if not options.names or entry.name in options.names]
    if options.start:
        chosen = [entry for entry in chosen if entry.name >= options.start]
    results = []
    for result in run(chosen, options.first, options.processes, options.timeout):
        results.append(result)
        for failure in result.failures[: options.shown]:
            print(f"{result.name} {failure}", flush=True)
        if options.names:
            for answer, calls in result.answers.items():
                for shown in calls if answer != "clear" else ():
                    print(f"{result.name} {answer}: {shown}")
        if options.write:
            options.write.write_text(json.dumps([one._asdict() for one in results]))
    print(table(results))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.0f} s of computing")
    sys.exit(any(result.failures for result in results))


def table(results: list[Result]) -> str:
    """Return the counts as a table in Markdown."""
    lines = ["| | names | pass entirely | samples | checks | failed |", "|:--|--:|--:|--:|--:|--:|"]
    for entry_type, title in (("op", "ops"), ("module", "modules")):
        rows = [result for result in results if result.kind == entry_type]
        passing = sum(not result.failures for result in rows)
        lines.append(
            f"| {title} | {len(rows)} | {passing} | {sum(r.samples for r in rows)} "
            f"| {sum(r.checks for r in rows)} | {sum(len(r.failures) for r in rows)} |"
        )
    answers = collections.Counter(
        {key: sum(len(r.answers.get(key, ())) for r in results) for key in ANSWERS}
    )
    lines += [
        "",
        "| bad calls | " + " | ".join(ANSWERS.values()) + " |",
        "|--:|" + "--:|" * len(ANSWERS),
    ]
    lines.append(
        f"| {answers.total()} | " + " | ".join(str(answers[key]) for key in ANSWERS) + " |"
    )
    excluded: collections.Counter[str] = collections.Counter()
    names: dict[str, set[str]] = collections.defaultdict(set)
    for result in results:
        excluded.update(result.excluded)
        for reason in result.excluded:
            names[reason].add(result.name)
    lines += ["", "| left out | samples | of |", "|:--|--:|:--|"]
    for reason, count in excluded.most_common():
        lines.append(f"| {reason} | {count} | {', '.join(sorted(names[reason]))} |")
    return "\n".join(lines)


ANSWERS = {
    "clear": "refused clearly",
    "class": "of another class",
    "unclear": "refused unclearly",
    "accepted": "accepted",
    "known": "known",
}

if __name__ == "__main__":
    main()
