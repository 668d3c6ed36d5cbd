"""What `assignment.toml` says: which exercises, how many points, when it is due, what late costs.

    title = "Lesson 7"
    exercises = ["71.mean", "02.softmax"]
    due = 2026-11-20T23:59:00            # or with an offset: 2026-11-20T23:59:00+01:00
    time_zone = "Europe/Berlin"          # of times that say none
    hand_ins = "last"                    # of several of a notebook; or "best"
    hand_in_time = "layout"              # or "modified": the files' own, where the layout says none

    [points]                             # where they are not those of the exercise
    "71.mean" = 3

    [late]                               # or: refuse = true
    percent_per_day = 10
    maximum_percent = 50
    grace_minutes = 15

A day that has begun counts as a whole one, from `due` on; what comes within the grace is not late.
"""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from ..errors import EdutorchError
from .submissions import Submission, SubmissionError

FILE = "assignment.toml"
DAY = timedelta(days=1)
CHOICES = {"hand_ins": ("last", "best"), "hand_in_time": ("layout", "modified")}
KEYS = ("title", "exercises", "due", "time_zone", *CHOICES, "points", "late")


class AssignmentError(EdutorchError, ValueError):
    """An `assignment.toml` does not say what it should, with the file, the key and what to do."""


class LateRule(NamedTuple):
    """What late costs.

    Attributes:
        percent_per_day: of the points, for each day that has begun.
        maximum_percent: at most so much is taken.
        grace_minutes: so long after `due` nothing is late.
        refuse: late hand-ins do not count at all.
    """

    percent_per_day: float = 0.0
    maximum_percent: float = 100.0
    grace_minutes: float = 0.0
    refuse: bool = False


class Assignment(NamedTuple):
    """An assignment; without a file, nothing is due and all hand-ins count in full.

    Attributes:
        exercises: ids; empty if the file does not choose.
        points: by id, where they are not those of the exercise.
        due: in UTC.
        time_zone: of times that say none.
    """

    title: str = ""
    exercises: tuple[str, ...] = ()
    points: Mapping[str, float] = {}
    due: datetime | None = None
    time_zone: str = "UTC"
    hand_ins: str = "last"
    hand_in_time: str = "layout"
    late: LateRule = LateRule()

    def time_of(self, file: Submission) -> datetime | None:
        """Return when a file was handed in; None if nothing says so.

        Raises: SubmissionError: what `timestamp.txt` says is no time.
        """
        time = parse_time(file) if file.time else None
        if time is None and self.hand_in_time == "modified":
            time = file.modified
        if time is not None and time.tzinfo is None:
            time = time.replace(tzinfo=ZoneInfo(self.time_zone))
        return time

    def days_late(self, file: Submission) -> int:
        """Return how many days late a file is, each as soon as it has begun.

        Of what Canvas has marked as late, and that has no time, only the first is known.

        >>> from datetime import UTC, datetime
        >>> from edutorch.classroom.assignment import Assignment
        >>> from edutorch.classroom.submissions import Submission
        >>> file = Submission("ada", "a.ipynb", bytes, time="2026-11-22 00:30:00 UTC")
        >>> Assignment(due=datetime(2026, 11, 20, 23, tzinfo=UTC)).days_late(file)
        2
        """
        days, time = int(file.late), self.time_of(file)
        if self.due is not None and time is not None:
            after = time - self.due
            if after > timedelta(minutes=self.late.grace_minutes):
                days = max(days, math.ceil(after / DAY))
        return days

    def points_after(self, points: float, days: int) -> float:
        """Return what the late rule leaves of some points.

        >>> from edutorch.classroom.assignment import Assignment, LateRule
        >>> Assignment(late=LateRule(10, 50)).points_after(2.0, 3)
        1.4
        """
        if days and self.late.refuse:
            return 0.0
        percent = min(days * self.late.percent_per_day, self.late.maximum_percent)
        return round(points * (100 - percent) / 100, 6)

    def to_json(self) -> dict[str, Any]:
        due = self.due and self.due.isoformat()
        return {**self._asdict(), "due": due, "late": self.late._asdict()}


def parse_time(file: Submission) -> datetime:
    """Return the time in nbgrader's `timestamp.txt`, as "2026-11-20 23:58:23.948203 UTC"."""
    try:
        return datetime.fromisoformat(file.time)
    except ValueError:
        pass
    text, _, zone = file.time.rpartition(" ")
    try:
        return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))
    except (ValueError, OSError, KeyError):
        raise SubmissionError(
            "grade", f"{file.file}: timestamp.txt beside it says no time: {file.time[:40]!r}",
            hint="such as '2026-11-20 23:58:23 UTC'; it counts as in time",
        ) from None  # fmt: skip


# Reading the file -------------------------------------------------------------------------------


def read_assignment(path: Path) -> Assignment:
    """Read an `assignment.toml`.

    Raises: AssignmentError: with the file, the key and what to do.
    """
    try:
        fields = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise AssignmentError("grade", f"{path}: {error.strerror}") from None
    except ValueError as error:  # of tomllib, and of the encoding
        raise AssignmentError("grade", f"{path}: is no TOML ({error})") from None
    return Reader(path).read(fields)


class Reader:
    """Reads the fields of one file, and names it in errors."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, fields: dict[str, Any]) -> Assignment:
        self.refuse_unknown(fields, KEYS)
        exercises = self.take(fields, "exercises", list, [])
        if not all(isinstance(id, str) for id in exercises) or len({*exercises}) < len(exercises):
            raise self.error("exercises", "is a list of different ids", 'as ["02.softmax"]')
        if "exercises" in fields and not exercises:
            raise self.error("exercises", "is empty", "leave it out, or name an exercise")
        for name, values in CHOICES.items():
            if name in fields and fields[name] not in values:
                raise self.error(name, f"is {fields[name]!r}", " or ".join(map(repr, values)))
        time_zone = self.time_zone(fields)
        due = self.due(fields, time_zone)
        if "late" in fields and due is None:
            raise self.error("late", "says what late costs, and no `due` when it begins", "add it")
        return Assignment(
            self.take(fields, "title", str, ""), tuple(exercises), self.points(fields, exercises),
            due, time_zone, fields.get("hand_ins", "last"), fields.get("hand_in_time", "layout"),
            self.late(fields),
        )  # fmt: skip

    def error(self, key: str, message: str, hint: str | None = None) -> AssignmentError:
        return AssignmentError("grade", f"{self.path}: `{key}` {message}", hint=hint)

    def take(self, fields: Mapping[str, Any], key: str, type: type, default: Any) -> Any:
        """Return a field, if it is of the right type."""
        value = fields.get(key, default)
        if not isinstance(value, type):
            raise self.error(key, f"is {value!r}, and not a {TYPES[type]}")
        return value

    def number(self, value: Any, key: str, most: float, least: float = 0.0) -> float:
        """Return a number between bounds."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, f"is {value!r}, and not a number")
        if not least <= value <= most:  # not a number is not, either
            raise self.error(key, f"is {value:g}", f"from {least:g} to {most:g}")
        return float(value)

    def refuse_unknown(self, fields: Iterable[str], known: Iterable[str], table: str = "") -> None:
        known = list(known)
        for key in fields:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1, 0.4)
                hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(known)}"
                where = f" in [{table}]" if table else ""
                raise self.error(key, f"is no key{where}", hint)

    def time_zone(self, fields: Mapping[str, Any]) -> str:
        name = self.take(fields, "time_zone", str, "UTC")
        try:
            ZoneInfo(name)
        except (ValueError, OSError, KeyError):
            raise self.error(
                "time_zone", f"is {name!r}, which is none that this machine knows",
                "such as 'Europe/Berlin'; where no zones are known, install the package tzdata",
            ) from None  # fmt: skip
        return name

    def due(self, fields: Mapping[str, Any], time_zone: str) -> datetime | None:
        due = fields.get("due")
        if due is None:
            return None
        if not isinstance(due, datetime):
            raise self.error("due", f"is {due!r}, and not a date with a time",
                             "as due = 2026-11-20T23:59:00+01:00, without quotes")  # fmt: skip
        if due.tzinfo is None and "time_zone" not in fields:
            raise self.error("due", f"is {due}, and no time zone is said",
                             'add an offset as +01:00, or time_zone = "Europe/Berlin"')  # fmt: skip
        try:
            return (due if due.tzinfo else due.replace(tzinfo=ZoneInfo(time_zone))).astimezone(UTC)
        except OverflowError:
            raise self.error("due", f"is {due}, which UTC has no year for") from None

    def points(self, fields: Mapping[str, Any], exercises: list[str]) -> dict[str, float]:
        table = self.take(fields, "points", dict, {})
        if exercises:
            self.refuse_unknown(table, exercises, "points")
        return {id: self.number(value, f"points.{id}", 1e6) for id, value in table.items()}

    def late(self, fields: Mapping[str, Any]) -> LateRule:
        table = self.take(fields, "late", dict, {})
        self.refuse_unknown(table, LateRule._fields, "late")
        refuse = self.take(table, "refuse", bool, False)
        percents = [key for key in ("percent_per_day", "maximum_percent") if key in table]
        if refuse and percents:
            raise self.error("late", f"has both refuse and {percents[0]}", "keep one of them")
        if percents == ["maximum_percent"]:
            raise self.error("late", "has maximum_percent, and no percent_per_day", "add it")
        highest = {"grace_minutes": 1e6}
        values = {
            key: self.number(value, f"late.{key}", highest.get(key, 100.0))
            for key, value in table.items() if key != "refuse"
        }  # fmt: skip
        return LateRule(refuse=refuse, **values)


TYPES = {str: "text", list: "list", dict: "table", bool: "true or false"}
