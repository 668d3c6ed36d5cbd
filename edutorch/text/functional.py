"""Lists of ids become tensors of one length."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ..dtypes import dtype as DType
from ..dtypes import int64
from ..errors import ArgumentError, InvalidValueError
from ..nn.utils.rnn import pad_sequence
from ..ops import tensor

__all__ = ["add_token", "str_to_int", "to_tensor", "truncate"]


def is_batch(op: str, input: Any) -> bool:
    """Whether this is a list of lists.

    Raises: ArgumentError: it is no list.
    """
    if not isinstance(input, list):
        raise ArgumentError(op, f"expected a list, or a list of lists, got {type(input).__name__}")
    return bool(input) and isinstance(input[0], list)


def to_tensor(input: Any, padding_value: int | None = None, dtype: DType = int64) -> Tensor:
    """Return a list of ids as a tensor, or several lists as one, filled up.

    Args:
        input: a list of ids, or a list of such lists.
        padding_value: fills up shorter lists; without it, all must have one length.

    >>> to_tensor([[1, 2, 3], [4]], padding_value=0)
    tensor([[1, 2, 3],
            [4, 0, 0]])
    """
    if not is_batch("to_tensor", input):
        return tensor(input, dtype=dtype)
    if padding_value is not None:
        rows = [tensor(ids, dtype=dtype) for ids in input]
        return pad_sequence(rows, batch_first=True, padding_value=float(padding_value))
    if len({len(ids) for ids in input}) > 1:
        raise InvalidValueError(
            "to_tensor", "the lists have different lengths",
            {"lengths": [len(ids) for ids in input]}, "padding_value=… fills them up",
        )  # fmt: skip
    return tensor(input, dtype=dtype)


def truncate(input: Any, max_seq_len: int) -> Any:
    """Return the first `max_seq_len` items of a list, or of each list.

    >>> truncate([[1, 2, 3], [4]], 2)
    [[1, 2], [4]]
    """
    if max_seq_len < 0:
        raise InvalidValueError("truncate", f"max_seq_len must not be negative, got {max_seq_len}")
    if is_batch("truncate", input):
        return [ids[:max_seq_len] for ids in input]
    return input[:max_seq_len]


def add_token(input: Any, token_id: Any, begin: bool = True) -> Any:
    """Return a list, or each list, with a token before it or after it.

    >>> add_token([[1, 2], [3]], 0), add_token([1, 2], 9, begin=False)
    ([[0, 1, 2], [0, 3]], [1, 2, 9])
    """
    if is_batch("add_token", input):
        return [add_token(ids, token_id, begin) for ids in input]
    return [token_id, *input] if begin else [*input, token_id]


def str_to_int(input: Any) -> Any:
    """Return the integers that a list of texts, or each list, spells.

    >>> str_to_int([["1", "2"], ["3"]])
    [[1, 2], [3]]
    """
    if is_batch("str_to_int", input):
        return [str_to_int(texts) for texts in input]
    return [int(text) for text in input]
