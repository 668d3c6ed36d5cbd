"""`python -m edutorch grade merge OUT1 OUT2 … --out OUT`: puts the results of shards together.

Each shard was graded with `--shard i/n` and one seed; merged, they are the same bytes as one run.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import EdutorchError
from ..utils.atomic_files import write_atomically
from .results import RESULTS, RUN, Progress, StudentResult, json_bytes, write_results

SHARED = ("versions", "exercises", "class")
SEED, PLAN = "seed.json", "plan.json"


class MergeError(EdutorchError, ValueError):
    """Results that cannot be merged, with the folders and the cause."""


class Part(NamedTuple):
    """The results in one folder: what `results.json` and `run.json` say."""

    folder: Path
    results: dict[str, Any]
    run: dict[str, Any]

    @property
    def runs(self) -> list[dict[str, Any]]:
        """The runs that have graded: one, or those that were merged before."""
        own = {name: value for name, value in self.run.items() if name not in SHARED}
        return self.run.get("merged") or [{"folder": str(self.folder), **own}]

    @property
    def students(self) -> list[StudentResult]:
        return [StudentResult.from_json(fields) for fields in self.results["students"]]


def merge(folders: Sequence[Path], out: Path) -> int:
    """Merge the results of shards; return 1 if somebody is missing.

    Raises: MergeError: they do not belong together, or a student is in two of them.
    """
    if out.resolve() in [folder.resolve() for folder in folders]:
        raise MergeError("merge", f"--out {out} is one of the folders to merge",
                         hint="choose another one")  # fmt: skip
    parts = [read_part(folder) for folder in folders]
    for part in parts[1:]:
        refuse_difference(parts[0], part)
    students = students_of(parts)
    copies = files_to_carry(parts)
    out.mkdir(parents=True, exist_ok=True)
    for name, path in copies.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, out / name)
    write_merged(out, parts, students)
    missing = sorted({name for part in parts for name in part.run["class"]} - students.keys())
    absent = missing_shards(parts)
    if missing:
        print(f"missing: {', '.join(missing)}", file=sys.stderr)
    if absent:
        print(f"missing: shard {', '.join(absent)}", file=sys.stderr)
    print(f"{len(students)} students of {len(students) + len(missing)}: {out}")
    return int(bool(missing))


def write_merged(out: Path, parts: Sequence[Part], students: dict[str, StudentResult]) -> None:
    """Write the files of a run, as one run would have."""
    first = parts[0]
    seed = first.results["seed"]
    assignment = first.results.get("assignment")
    write_atomically(out / SEED, json_bytes({"seed": seed}))
    plan = {"exercises": first.run["exercises"], "assignment": assignment}
    write_atomically(out / PLAN, json_bytes(plan))
    progress = Progress(out, resume=False)  # a later `--resume` grades who is missing
    for name in sorted(students):
        progress.add(students[name])
    progress.close()
    shared = {name: first.run[name] for name in SHARED}
    about = {**shared, "merged": [run for part in parts for run in part.runs]}
    write_results(out, students.values(), seed, about, assignment)


def read_part(folder: Path) -> Part:
    """Read the results in a folder.

    Raises: MergeError: they are not there, or not whole.
    """
    documents = []
    for name, keys in ((RESULTS, ("seed", "students")), (RUN, SHARED)):
        path = folder / name
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            missing = [key for key in keys if key not in document]
        except OSError as error:
            raise MergeError("merge", f"{path}: {error.strerror}",
                             hint="it is there when a shard is graded whole") from None  # fmt: skip
        except (ValueError, TypeError) as error:
            raise MergeError("merge", f"{path}: is no JSON ({error})") from None
        if missing:
            raise MergeError("merge", f"{path}: says nothing about {', '.join(missing)}",
                             hint="grade this shard again with this version")  # fmt: skip
        documents.append(document)
    try:
        [StudentResult.from_json(fields) for fields in documents[0]["students"]]
    except (KeyError, TypeError) as error:
        raise MergeError("merge", f"{folder / RESULTS}: is of another version ({error})") from None
    return Part(folder, *documents)


def refuse_difference(first: Part, other: Part) -> None:
    """Refuse two folders that are not of one run."""
    pairs = {
        "seed": [part.results["seed"] for part in (first, other)],
        "assignment": [part.results.get("assignment") for part in (first, other)],
        "exercises": [part.run["exercises"] for part in (first, other)],
        "versions": [part.run["versions"] for part in (first, other)],
    }
    for name, (one, two) in pairs.items():
        if one != two:
            raise MergeError(
                "merge", f"{first.folder} and {other.folder} do not agree in their {name}",
                {str(first.folder): short(one), str(other.folder): short(two)},
                "grade all shards with the same --seed, options and versions",
            )  # fmt: skip


def short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) < 200 else text[:200] + "…"


def students_of(parts: Sequence[Part]) -> dict[str, StudentResult]:
    """Return the results of all students.

    Raises: MergeError: somebody is in two folders.
    """
    students: dict[str, StudentResult] = {}
    folder_of: dict[str, Path] = {}
    for part in parts:
        for result in part.students:
            name = result.student
            if name in students:
                raise MergeError("merge", f"{name} is in {folder_of[name]} and in {part.folder}",
                                 hint="give each shard once")  # fmt: skip
            students[name], folder_of[name] = result, part.folder
    return students


def missing_shards(parts: Sequence[Part]) -> list[str]:
    """Return the shards that are not there, as "2/3"."""
    there = {run["shard"] for part in parts for run in part.runs if run.get("shard")}
    counts = {int(shard.partition("/")[2]) for shard in there}
    return [
        f"{index}/{count}" for count in sorted(counts) for index in range(1, count + 1)
        if f"{index}/{count}" not in there
    ]  # fmt: skip


def files_to_carry(parts: Sequence[Part]) -> dict[str, Path]:
    """Return the files in all folders below the results, as feedback for students, by their names.

    Raises: MergeError: two folders have different files of one name.
    """
    files: dict[str, Path] = {}
    for part in parts:
        for name, path in files_below(part.folder):
            other = files.setdefault(name, path)
            if other != path and other.read_bytes() != path.read_bytes():
                raise MergeError("merge", f"{other} and {path} differ",
                                 hint="give each shard once")  # fmt: skip
    return files


def files_below(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files in the folders below one: not those that lie in it, and no links."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if len(parts) > 1 and path.is_file() and not path.is_symlink():
            yield "/".join(parts), path
