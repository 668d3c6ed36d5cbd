"""Finds the hand-ins of a class in a folder: who has handed in what.

The layouts of nbgrader, Canvas and Moodle are known, and plain folders:

    submitted/ada/lesson02/02_backprop_by_hand.ipynb              nbgrader
    lovelaceada_LATE_1815_36_02_backprop_by_hand.ipynb            Canvas: name, user id, file id
    Ada Lovelace_1815_assignsubmission_file_/02_….ipynb           Moodle
    ada/02_backprop_by_hand.ipynb        ada.ipynb        ada.py  plain

Of the time of a hand-in the layouts say this: nbgrader's exchange writes it into `timestamp.txt` in
the folder of the assignment (only there it is read: elsewhere it would be the student's own file),
and Canvas writes LATE into the names of late files. Moodle and plain folders say nothing.

A zip file stands for the folder that it contains. What is in it is read, never unpacked to disk, so
that no path or link in it can lead anywhere.
"""

from __future__ import annotations

import re
import stat
import zipfile
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ..errors import EdutorchError

SUFFIXES = (".ipynb", ".py")

MOST_BYTES = 20_000_000
"""A larger file is refused without being read: a notebook of this course takes less than 1 MB."""

MOST_FILES = 2_000
"""A zip file with more files is refused."""

CANVAS = re.compile(
    r"(?P<student>[^_]+)_(?P<late>LATE_)?(?P<id>\d+)_(?:question_\d+_)?\d+_(?P<file>.+)"
)
MOODLE = re.compile(r"(?P<student>.+)_(?P<id>\d+)_assignsubmission_[a-z]+_?")
TIMESTAMP, MOST_OF_TIMESTAMP = "timestamp.txt", 100
SKIPPED = {"__MACOSX", ".ipynb_checkpoints", "__pycache__", ".git"}


class SubmissionError(EdutorchError, ValueError):
    """A hand-in that cannot be read, with the student, the file and the cause."""


class Submission(NamedTuple):
    """One file that a student has handed in.

    Attributes:
        student: the name of the folder or file; without Canvas's and Moodle's numbers.
        file: its path, for messages; inside a zip file as "class.zip:ada/lesson.ipynb".
        read: returns its bytes.
        number: the id of the student in Canvas or Moodle; "" if unknown.
        late: whether Canvas has marked it as late.
        time: what nbgrader's `timestamp.txt` says; "" if there is none.
        modified: when the file, or the student's zip file, was changed. In a zip file of the whole
            class it has no time zone.
    """

    student: str
    file: str
    read: Callable[[], bytes]
    number: str = ""
    late: bool = False
    time: str = ""
    modified: datetime | None = None

    @property
    def name(self) -> str:
        """The name of the file alone."""
        return PurePosixPath(self.file.rpartition(":")[2]).name


def find_submissions(folder: Path) -> Iterator[Submission | SubmissionError]:
    """Yield all hand-ins below a folder (or in a zip file), and an error for each unreadable one.

    Raises: SubmissionError: there is no such folder, or nothing in it.
    """
    if not folder.exists():
        raise SubmissionError("grade", f"there is no folder {str(folder)!r}")
    empty = True
    for item in files_below(folder):
        empty = False
        yield item
    if empty:
        raise SubmissionError(
            "grade", f"no notebook, .py or .zip file below {str(folder)!r}",
            hint="give the folder that holds a folder or file for each student",
        )  # fmt: skip


def files_below(folder: Path) -> Iterator[Submission | SubmissionError]:
    if folder.is_file():
        yield from files_in_zip(folder, folder.name, ())
        return
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if SKIPPED.intersection(parts) or not path.is_file():
            continue
        if path.is_symlink() or any(parent.is_symlink() for parent in path.parents[: len(parts)]):
            yield SubmissionError("grade", f"{path}: is a link; nothing was read through it")
        elif path.suffix in (*SUFFIXES, ".zip"):
            time = nbgrader_time(folder, parts)
            modified = modified_at(path)
            files: Iterable[Submission | SubmissionError] = (
                files_in_zip(path, str(path), parts[:-1] or (path.stem,))
                if path.suffix == ".zip"
                else [owned(parts, str(path), reader(path))]
            )
            for file in files:
                if isinstance(file, Submission):
                    file = file._replace(time=time, modified=modified)
                yield file


def modified_at(path: Path) -> datetime | None:
    """Return when a file was changed; None for a time that no calendar knows."""
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except (OSError, ValueError, OverflowError):
        return None


def nbgrader_time(folder: Path, parts: tuple[str, ...]) -> str:
    """Return what `submitted/<student>/<assignment>/timestamp.txt` says; "" if there is none."""
    above = 3 if parts[0] == "submitted" else 2
    if len(parts) <= above or "submitted" not in (parts[0], folder.resolve().name):
        return ""
    path = folder.joinpath(*parts[:above], TIMESTAMP)
    if path.is_symlink() or not path.is_file():
        return ""
    with path.open("rb") as stream:
        return stream.read(MOST_OF_TIMESTAMP).decode("utf-8", "replace").strip()


def reader(path: Path) -> Callable[[], bytes]:
    """Return a function that reads a file, unless it is too large."""

    def read() -> bytes:
        check_size(str(path), path.stat().st_size)
        return path.read_bytes()

    return read


def check_size(file: str, size: int) -> None:
    if size > MOST_BYTES:
        raise SubmissionError(
            "grade", f"{file}: has {size / 1e6:,.0f} MB, which no notebook of the course has",
            hint=f"files of at most {MOST_BYTES / 1e6:.0f} MB are read",
        )  # fmt: skip


def files_in_zip(
    path: Path, file: str, owner: tuple[str, ...]
) -> Iterator[Submission | SubmissionError]:
    """Yield what is in a zip file: a whole class, or the files of the student `owner`."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            times = zipped_times(archive, [] if owner else members[:MOST_FILES])
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        yield SubmissionError("grade", f"{file}: is no zip file that can be read ({error})")
        return
    if len(members) > MOST_FILES:
        yield SubmissionError("grade", f"{file}: holds {len(members):,} files; nothing was read")
        return
    for member in members:
        parts = PurePosixPath(member.filename.replace("\\", "/")).parts
        if SKIPPED.intersection(parts) or not member.filename.endswith(SUFFIXES):
            continue
        if ".." in parts or parts[0] == "/" or stat.S_ISLNK(member.external_attr >> 16):
            yield SubmissionError("grade", f"{file}:{member.filename}: leads out of the zip file")
            continue
        name = f"{file}:{member.filename}"
        submission = owned((*owner, *parts), name, zip_reader(path, member.filename, name))
        yield submission._replace(time=times.get(parts[:3], ""), modified=zipped_at(member))


def zipped_times(
    archive: zipfile.ZipFile, members: Iterable[zipfile.ZipInfo]
) -> dict[tuple[str, ...], str]:
    """Return what nbgrader's `timestamp.txt` says, by the folder that it lies in."""
    times = {}
    for member in members:
        *above, name = PurePosixPath(member.filename.replace("\\", "/")).parts
        if name == TIMESTAMP and len(above) == 3 and above[0] == "submitted":
            try:
                with archive.open(member) as stream:
                    text = stream.read(MOST_OF_TIMESTAMP)
            except (zipfile.BadZipFile, RuntimeError, OSError, ValueError, EOFError):
                text = b"cannot be unpacked"  # which is no time: it will be said
            times[tuple(above)] = text.decode("utf-8", "replace").strip()
    return times


def zipped_at(member: zipfile.ZipInfo) -> datetime | None:
    """Return when a file in a zip file was changed, in an unknown time zone."""
    try:
        return datetime(*member.date_time)
    except ValueError:  # a month 0 is written where the time was unknown
        return None


def zip_reader(path: Path, member: str, file: str) -> Callable[[], bytes]:
    """Return a function that reads a file in a zip file, and no more than is allowed.

    The size in the header may be a lie: what is unpacked is counted.
    """

    def read() -> bytes:
        try:
            with zipfile.ZipFile(path) as archive, archive.open(member) as stream:
                content = stream.read(MOST_BYTES + 1)
        except (zipfile.BadZipFile, RuntimeError, OSError, ValueError, EOFError) as error:
            raise SubmissionError("grade", f"{file}: cannot be unpacked ({error})") from error
        check_size(file, len(content))
        return content

    return read


def owned(parts: tuple[str, ...], file: str, read: Callable[[], bytes]) -> Submission:
    """Return a hand-in with the student that its path names.

    >>> from edutorch.classroom.submissions import owned
    >>> owned(("submitted", "ada", "lesson02", "a.ipynb"), "", bytes).student
    'ada'
    >>> owned(("lovelaceada_LATE_1815_36_a.ipynb",), "", bytes).number
    '1815'
    """
    parts, file = tuple(map(readable, parts)), readable(file)
    if canvas := CANVAS.fullmatch(parts[-1]):
        return Submission(canvas["student"], file, read, canvas["id"], bool(canvas["late"]))
    for part in parts[:-1]:
        if moodle := MOODLE.fullmatch(part):
            return Submission(moodle["student"], file, read, moodle["id"])
    if parts[0] == "submitted" and len(parts) > 2:
        parts = parts[1:]
    return Submission(parts[0] if len(parts) > 1 else PurePosixPath(parts[0]).stem, file, read)


def readable(name: str) -> str:
    """Return a file's name as text that can be written, whatever its bytes are.

    >>> from edutorch.classroom.submissions import readable
    >>> readable("Zo" + chr(0xDCEB))
    'Zo\\\\udceb'
    """
    return name.encode("utf-8", "backslashreplace").decode()


def by_student(
    found: Iterable[Submission | SubmissionError],
) -> tuple[dict[str, list[Submission]], list[SubmissionError]]:
    """Return the hand-ins of each student, in order of names, and what could not be read."""
    items = list(found)
    errors = [item for item in items if isinstance(item, SubmissionError)]
    submissions = [item for item in items if isinstance(item, Submission)]
    ids: dict[str, set[str]] = {}
    for item in submissions:
        ids.setdefault(item.student, set()).add(item.number)
    students: dict[str, list[Submission]] = {}
    for item in submissions:
        # Two people may have one name: then their ids in Canvas or Moodle tell them apart.
        name = f"{item.student}_{item.number}" if len(ids[item.student]) > 1 else item.student
        students.setdefault(name.rstrip("_"), []).append(item)
    return dict(sorted(students.items())), errors
