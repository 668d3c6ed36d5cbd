"""A batch: the columns of several examples, as tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

from .dataset import Dataset


class Batch:
    """Examples as tensors: an attribute for each column.

    Iterating yields two tuples, the inputs and the targets (one alone is no tuple).

    Args:
        data: the examples.
        dataset: that they are of, with its fields.
        device: where the tensors go.
    """

    def __init__(
        self, data: Sequence[Any] | None = None, dataset: Dataset | None = None, device: Any = None
    ) -> None:
        if data is None or dataset is None:
            return
        self.batch_size, self.dataset = len(data), dataset
        self.set_fields(dataset)
        for name, field in dataset.fields.items():
            if field is not None:
                column = [getattr(example, name) for example in data]
                setattr(self, name, field.process(column, device=device))

    def set_fields(self, dataset: Dataset) -> None:
        """Note which columns are inputs, and which are targets."""
        fields = {name: field for name, field in dataset.fields.items() if field is not None}
        self.fields = list(fields)
        self.input_fields = [name for name, field in fields.items() if not field.is_target]
        self.target_fields = [name for name, field in fields.items() if field.is_target]

    @classmethod
    def fromvars(cls, dataset: Dataset, batch_size: int, train: Any = None, **kwargs: Any) -> Self:
        """Return a batch of tensors that are there already."""
        batch = cls()
        batch.batch_size, batch.dataset = batch_size, dataset
        batch.set_fields(dataset)
        for name, value in kwargs.items():
            setattr(batch, name, value)
        return batch

    def __len__(self) -> int:
        return self.batch_size

    def __iter__(self) -> Iterator[Any]:
        for names in (self.input_fields, self.target_fields):
            values = tuple(getattr(self, name) for name in names)
            yield values[0] if len(values) == 1 else values or None

    def __repr__(self) -> str:
        rows = [f"[torchtext.legacy.data.batch.Batch of size {self.batch_size}]"]
        for name in self.fields:
            value = getattr(self, name, None)
            first = value[0] if isinstance(value, tuple) else value
            shape = tuple(getattr(first, "shape", ()))
            rows.append(f"\t[.{name}]: {type(first).__name__} of size {shape}")
        return "\n".join(rows)
