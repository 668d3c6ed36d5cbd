"""Data sets of examples."""

from __future__ import annotations

import csv
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from ....errors import EdutorchError, InvalidValueError
from ....utils.data import Dataset as BaseDataset
from .example import Example


class TableError(EdutorchError, ValueError):
    """A line of a table cannot be read."""


class Dataset(BaseDataset):
    """Examples, and the fields that have read them.

    Args:
        examples: the rows.
        fields: the (name, field) of each column.
        filter_pred: keep only the examples for which it is true.
    """

    sort_key: Any = None

    def __init__(
        self, examples: Iterable[Example], fields: Any,
        filter_pred: Callable[[Example], bool] | None = None,
    ) -> None:  # fmt: skip
        self.examples = [
            example for example in examples if filter_pred is None or filter_pred(example)
        ]
        self.fields: dict[str, Any] = {}
        for name, field in fields.items() if isinstance(fields, Mapping) else fields:
            if isinstance(name, tuple):
                self.fields.update(zip(name, field, strict=True))
            else:
                self.fields[name] = field

    def __getitem__(self, i: int) -> Example:
        return self.examples[i]

    def __len__(self) -> int:
        return len(self.examples)

    def __iter__(self) -> Iterator[Example]:
        yield from self.examples

    def __getattr__(self, name: str) -> Iterator[Any]:
        """Return an iterator over a column."""
        if name in vars(self).get("fields", ()):
            return (getattr(example, name) for example in self.examples)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @classmethod
    def splits(
        cls, path: str | Path | None = None, root: str = ".data", train: str | None = None,
        validation: str | None = None, test: str | None = None, **kwargs: Any,
    ) -> tuple[Self, ...]:  # fmt: skip
        """Return a data set for each of the named files in a folder.

        Args:
            path: the folder; default: `root`.
            train, validation, test: the names of files; None leaves one out.
            kwargs: passed on to the data set.
        """
        folder = Path(root if path is None else path)
        names = [name for name in (train, validation, test) if name is not None]
        read: Any = cls  # of a class that reads a file
        return tuple(read(folder / name, **kwargs) for name in names)

    def split(
        self, split_ratio: float | Sequence[float] = 0.7, stratified: bool = False,
        strata_field: str = "label", random_state: Any = None,
    ) -> tuple[Dataset, ...]:  # fmt: skip
        """Return random parts of the examples: (train, validation, test), without empty ones.

        Args:
            split_ratio: the share of the first part, or the sizes of train, test and validation
                relative to each other.
            stratified: whether each part has the classes of `strata_field` in the same shares.
            random_state: of Python's `random`, such as `random.getstate()` or `random.seed(0)`.
        """
        train, test, validation = relative_sizes(split_ratio)
        shuffler = random.Random()
        shuffler.setstate(random_state or random.getstate())
        groups: defaultdict[Any, list[Example]] = defaultdict(list)
        for example in self.examples:
            groups[getattr(example, strata_field) if stratified else None].append(example)
        parts: tuple[list[Example], ...] = ([], [], [])
        for group in groups.values():
            shuffled = shuffler.sample(group, len(group))
            first = round(train * len(group))
            second = len(group) if not validation else first + round(test * len(group))
            parts[0].extend(shuffled[:first])
            parts[1].extend(shuffled[second:])
            parts[2].extend(shuffled[first:second])
        datasets = tuple(Dataset(part, self.fields) for part in parts if part)
        for dataset in datasets:
            dataset.sort_key = self.sort_key
        return datasets

    def filter_examples(self, field_names: Iterable[str]) -> None:
        """Remove words that are not in the vocabulary from these columns."""
        for name in field_names:
            words = set(self.fields[name].vocab.itos)
            for example in self.examples:
                kept = [word for word in getattr(example, name) if word in words]
                setattr(example, name, kept)


def relative_sizes(split_ratio: float | Sequence[float]) -> tuple[float, float, float]:
    """Return which share of the examples is for training, testing and validation.

    >>> relative_sizes([2, 1, 1])
    (0.5, 0.25, 0.25)
    """
    if isinstance(split_ratio, float) and 0 < split_ratio < 1:
        return split_ratio, 1 - split_ratio, 0.0
    sizes = list(split_ratio) if isinstance(split_ratio, list | tuple) else []
    if len(sizes) in (2, 3) and min(sizes) >= 0 and sum(sizes) > 0:
        train, test, validation = [*(size / sum(sizes) for size in sizes), 0.0][:3]
        return train, test, validation
    raise InvalidValueError(
        "Dataset.split", "split_ratio must be a share, or two or three sizes",
        {"split_ratio": split_ratio}, "0.7, or [0.7, 0.2, 0.1] for train, test and validation",
    )  # fmt: skip


class TabularDataset(Dataset):
    """Examples from the lines of a file.

    Args:
        path: the file.
        format: "csv", "tsv" or "json" (an object in each line).
        fields: a list: the (name, field) of each column, (name, None) leaves one out. A dict: the
            (name, field) of each column by the name in the header, or of each key of an object.
        skip_header: whether to leave out the first line; not with a dict.
        csv_reader_params: arguments of `csv.reader`.
        kwargs: passed on to `Dataset`.

    Raises:
        FileNotFoundError: there is no such file.
        TableError (a ValueError): a line has another number of columns, or is no object.
    """

    def __init__(
        self, path: str | Path, format: str, fields: Any, skip_header: bool = False,
        csv_reader_params: Mapping[str, Any] | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        format = format.lower()
        if format not in ("csv", "tsv", "json"):
            raise InvalidValueError(
                "TabularDataset", f"there is no format {format!r}", hint='"csv", "tsv" or "json"'
            )
        if skip_header and isinstance(fields, Mapping):
            raise InvalidValueError(
                "TabularDataset", "a dict of fields needs the header, which skip_header leaves out"
            )
        with open(path, encoding="utf-8", newline="") as file:
            if format == "json":
                rows: Iterable[tuple[int, Any]] = enumerate(file, start=1)
            else:
                delimiter = {"delimiter": "\t"} if format == "tsv" else {}
                reader = csv.reader(file, **{**delimiter, **(csv_reader_params or {})})
                rows = ((reader.line_num, row) for row in reader)
            examples = list(read_rows(iter(rows), fields, format, skip_header, str(path)))
        pairs = list(flatten_fields(fields)) if isinstance(fields, Mapping) else fields
        super().__init__(examples, pairs, **kwargs)


def flatten_fields(fields: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield each (name, field) of a dict, whose values may be lists of them."""
    for columns in fields.values():
        yield from columns if isinstance(columns, list) else [columns]


def read_rows(
    rows: Iterator[tuple[int, Any]], fields: Any, format: str, skip_header: bool, path: str
) -> Iterator[Example]:
    """Yield the examples of numbered rows."""
    positions = None
    if format != "json" and isinstance(fields, Mapping):
        header = next(rows, (0, []))[1]
        missing = [name for name in fields if name not in header]
        if missing:
            raise TableError(
                "TabularDataset", f"the header of {path} has no column {missing[0]!r}",
                {"columns": ", ".join(header)},
            )  # fmt: skip
        positions = {name: header.index(name) for name in fields}
    elif skip_header:
        next(rows, None)
    for number, row in rows:
        try:
            if format == "json":
                yield Example.fromdict(json.loads(row), fields)
            else:
                yield Example.fromCSV(row, fields, positions)
        except (ValueError, IndexError, TypeError) as error:
            raise TableError("TabularDataset", f"line {number} of {path}: {error}") from error
