"""Sequences, which are lists here, and optionals, which are values or None."""

from __future__ import annotations

from typing import Any

from ..table import onnx_op
from ..values import Value, number, torch


@onnx_op("SequenceConstruct")
def sequence_construct(*inputs: Value) -> list[Value]:
    """A list of tensors."""
    return sequence_of(*inputs)


def sequence_of(*tensors: Value) -> Any:
    """Return a list; for proxies, when the model runs."""
    known_only_later(tensors)
    return list(tensors)


def known_only_later(values: Any) -> None:
    """Raise NotKnownError if any value is a proxy: the op is one node then."""
    from ..values import NotKnownError, Proxy, active_tracer

    if active_tracer.get() is not None or any(isinstance(value, Proxy) for value in values):
        raise NotKnownError


@onnx_op("SequenceEmpty")
def sequence_empty(*, dtype: int = 1) -> list[Value]:
    """An empty list."""
    known_only_later(())
    return []


@onnx_op("SequenceInsert")
def sequence_insert(input_sequence: Value, tensor: Value, position: Value = None) -> list[Value]:
    """A list with one tensor more, by default at its end."""
    known_only_later((input_sequence,))
    index = len(input_sequence) if position is None else int(number(position))
    index = index + len(input_sequence) if index < 0 else index
    return [*input_sequence[:index], tensor, *input_sequence[index:]]


@onnx_op("SequenceErase")
def sequence_erase(input_sequence: Value, position: Value = None) -> list[Value]:
    """A list with one tensor less, by default its last."""
    known_only_later((input_sequence,))
    index = -1 if position is None else int(number(position))
    index = index + len(input_sequence) if index < 0 else index
    return [*input_sequence[:index], *input_sequence[index + 1 :]]


@onnx_op("SequenceAt")
def sequence_at(input_sequence: Value, position: Value) -> Value:
    """One tensor of a list."""
    known_only_later((input_sequence,))
    return input_sequence[int(number(position))]


@onnx_op("SequenceLength")
def sequence_length(input_sequence: Value) -> Value:
    """The length of a list, as a tensor."""
    known_only_later((input_sequence,))
    return torch.tensor(len(input_sequence))


@onnx_op("ConcatFromSequence")
def concat_from_sequence(input_sequence: Value, *, axis: int, new_axis: int = 0) -> Value:
    """Join or stack the tensors of a list."""
    return (torch.stack if new_axis else torch.cat)(input_sequence, axis)


@onnx_op("SplitToSequence")
def split_to_sequence(
    input: Value, split: Value = None, *, axis: int = 0, keepdims: int = 1
) -> list[Value]:
    """Cut a tensor into a list: of parts of given sizes, or of slices."""
    known_only_later((input,))
    if split is None:
        parts = list(torch.split(input, 1, axis))
        return parts if keepdims else [part.squeeze(axis) for part in parts]
    sizes = int(split) if split.dim() == 0 else split.tolist()
    return list(torch.split(input, sizes, axis))


@onnx_op("Optional")
def optional(input: Value = None) -> Value:
    """The value, or None."""
    return input


@onnx_op("OptionalHasElement")
def optional_has_element(input: Value = None) -> Value:
    """Whether there is a value, as a tensor."""
    known_only_later((input,))
    return torch.tensor(input is not None)


@onnx_op("OptionalGetElement")
def optional_get_element(input: Value) -> Value:
    """The value."""
    return input
