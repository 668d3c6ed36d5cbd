"""Updates a measured coverage map after changes: moved lines and changed tests."""

from __future__ import annotations

import difflib
import json
import shutil
import sqlite3
from pathlib import Path

from .areas import ROOT
from .coverage_map import DATA, FOLDER, TIMES, measure

MEASURED = FOLDER / "measured"
"""A copy of the source and the tests as they were when the map was measured."""


def keep_sources() -> None:
    """Copy what was measured, so that a later map can be made from this one."""
    shutil.rmtree(MEASURED, ignore_errors=True)
    skipped = shutil.ignore_patterns("__pycache__", "artifacts", ".hypothesis")
    for name in ("edutorch", "tests"):
        shutil.copytree(ROOT / name, MEASURED / name, ignore=skipped)


def update() -> None:
    """Bring the map to the source as it is now: measure the changed test files only."""
    if not MEASURED.exists():
        raise SystemExit("no sources of a map: run `python -m tests.mutants --measure` first")
    changed = changed_tests()
    connection = sqlite3.connect(DATA)
    move_lines(connection)
    for path in changed:
        forget_tests(connection, path)
    connection.commit()
    connection.close()
    there = [path for path in changed if (ROOT / path).exists()]
    if there:
        times = json.loads(TIMES.read_text())
        kept = {test: time for test, time in times.items() if not test.startswith(tuple(changed))}
        measure(there)
        TIMES.write_text(json.dumps(kept | json.loads(TIMES.read_text())))
    keep_sources()


def changed_tests() -> list[str]:
    """Return the test files that are new, gone or different, by their paths in the tree."""
    now, then = (test_files(root) for root in (ROOT, MEASURED))
    return sorted(path for path in now.keys() | then.keys() if now.get(path) != then.get(path))


def test_files(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in (root / "tests").rglob("test_*.py")
    }


def move_lines(connection: sqlite3.Connection) -> None:
    """Give each line that a test ran the number that it has now."""
    from coverage.numbits import numbits_to_nums, nums_to_numbits

    files = connection.execute("select id, path from file").fetchall()
    for file, path in files:
        name = path[path.index("edutorch/", path.rindex("/edutorch/")) :]
        connection.execute("update file set path = ? where id = ?", (str(ROOT / name), file))
        line_map = new_numbers(MEASURED / name, ROOT / name)
        if line_map is None:
            continue
        rows = connection.execute(
            "select context_id, numbits from line_bits where file_id = ?", (file,)
        ).fetchall()
        for context, bits in rows:
            lines = [line_map[line] for line in numbits_to_nums(bits) if line in line_map]
            connection.execute(
                "update line_bits set numbits = ? where file_id = ? and context_id = ?",
                (nums_to_numbits(lines), file, context),
            )


def new_numbers(old: Path, new: Path) -> dict[int, int] | None:
    """Return the new number of each line that is still there; None: none has moved.

    A changed line takes the place of the one it replaces: who ran the one most likely runs the
    other.
    """
    if not old.exists() or not new.exists():
        return {}
    before, after = old.read_text().splitlines(), new.read_text().splitlines()
    if before == after:
        return None
    line_map: dict[int, int] = {}
    changes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    for change, start, end, new_start, new_end in changes:
        if change in ("equal", "replace"):
            for line in range(start, end):
                line_map[line + 1] = min(new_start + line - start, new_end - 1) + 1
    return line_map


def forget_tests(connection: sqlite3.Connection, path: str) -> None:
    """Delete what the tests of a file have run."""
    connection.execute(
        "delete from line_bits where context_id in "
        "(select id from context where substr(context, 1, ?) = ?)",
        (len(path) + 2, f"{path}::"),
    )
