"""One row of a data set."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from ....errors import InvalidValueError


class Example:
    """A row: its columns are attributes, as the fields have read them."""

    def set_column(self, name: Any, field: Any, value: Any) -> None:
        """Read a value by its field, or by several fields with a name each."""
        if field is None:
            return
        if isinstance(value, str):
            value = value.rstrip("\n")
        names, fields = (name, field) if isinstance(name, tuple) else ((name,), (field,))
        for own_name, own_field in zip(names, fields, strict=True):
            setattr(self, own_name, own_field.preprocess(value))

    @classmethod
    def fromlist(cls, data: Iterable[Any], fields: Sequence[tuple[Any, Any]]) -> Self:
        """Return a row of values in the order of (name, field); a field None leaves one out.

        Raises: InvalidValueError: there are more or fewer values than fields.
        """
        data = list(data)
        if len(data) != len(fields):
            raise InvalidValueError(
                "Example.fromlist", "there must be a value for each field",
                {"values": len(data), "fields": [name for name, _ in fields]},
                "(name, None) leaves a column out",
            )  # fmt: skip
        example = cls()
        for (name, field), value in zip(fields, data, strict=True):
            example.set_column(name, field, value)
        return example

    @classmethod
    def fromdict(cls, data: Mapping[str, Any], fields: Mapping[str, Any]) -> Self:
        """Return a row of values by name.

        Args:
            fields: the (name, field) of each key, or several of them.

        Raises: InvalidValueError: a key is missing.
        """
        example = cls()
        for key, columns in fields.items():
            if key not in data:
                raise InvalidValueError(
                    "Example.fromdict", f"Specified key {key} was not found in the input data",
                    {"keys": ", ".join(map(str, data))},
                )  # fmt: skip
            for name, field in columns if isinstance(columns, list) else [columns]:
                example.set_column(name, field, data[key])
        return example

    @classmethod
    def fromJSON(cls, data: str, fields: Mapping[str, Any]) -> Self:
        """Return a row of a JSON object; see `fromdict`."""
        return cls.fromdict(json.loads(data), fields)

    @classmethod
    def fromCSV(
        cls, data: str | Sequence[str], fields: Any, field_to_index: Mapping[str, int] | None = None
    ) -> Self:
        """Return a row of a CSV line; `field_to_index` says where each key of `fields` stands."""
        row = next(csv.reader([data])) if isinstance(data, str) else data
        if field_to_index is None:
            return cls.fromlist(row, fields)
        return cls.fromdict({key: row[field_to_index[key]] for key in fields}, fields)

    @classmethod
    def fromtree(cls, data: str, fields: Sequence[tuple[Any, Any]], subtrees: bool = False) -> Any:
        """Refuse: trees need the library nltk."""
        raise InvalidValueError(
            "Example.fromtree", "trees are not read here", hint="nltk.tree.Tree"
        )
