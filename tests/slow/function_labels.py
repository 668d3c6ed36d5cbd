"""What students read of each public function: the labels of its picture and its `grad_fn`.

    python -m tests.slow.function_labels            the table of all functions
    python -m tests.slow.function_labels --wrong    only what is no public name

Every function of PyTorch's own table is called with its first samples, here and in PyTorch.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import operator
import re
import types
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.testing._internal.common_methods_invocations import op_db

import edutorch
from edutorch import viz
from tests.slow.sample_checks import OpChecker, as_call, first, translated
from tests.slow.sample_translation import (
    NAMESPACES,
    NoCounterpartError,
    counterpart,
    lookup,
    seeded,
)

SAMPLES = 3
OF_PYTORCH = re.compile(
    "Alias|AsStrided|ConstantPadNd|Convolution|CopyBackwards|CopySlices|Im2Col|Col2Im|Fft[CR]2[CR]|"
    "MultilabelMarginLoss|PreluKernel|(Reflection|Replication)Pad.D|RreluWithNoise|Slice|ToCopy|"
    "SparseMmReduceImpl|Upsample(Nearest|NearestExact|Linear|Bilinear|Bicubic|Trilinear).D|"
    "ScaledDotProductFlashAttentionForCpu"
)
"""Names of nodes that PyTorch has for functions without that name."""

OTHER_NODES = {
    "__rsub__": "2 - x is one op here, the subtraction",
    "fft.fft": "a transform of real numbers is one of complex numbers here",
    "fft.rfft2": "its second transform, of complex numbers, is the last node here",
    "fft.rfftn": "its last transform, of complex numbers, is the last node here",
    "linalg.vecdot": "a product and a sum here",
    "nn.functional.feature_alpha_dropout": "its shift is the last node here",
    "nn.functional.linear_cross_entropy": "a node that PyTorch's code generator names",
    "nn.functional.multi_head_attention_forward": "its last view is left out here",
    "mean": "dim=() and a dim of a 0-d tensor are no dim here",
    "normal": "mean + std · noise here",
    "round": "decimals=0 is the default here, and another overload there",
    "sort": "stable=… is another overload there",
    "squeeze_copy": "a 0-d tensor has no dim to squeeze here",
    "sum": "dim=() and a dim of a 0-d tensor are no dim here",
    "sum_to_size": "a sum and a reshape here",
    "unsafe_chunk": "chunk itself: results here are never written through",
    "unsafe_split": "split itself: results here are never written through",
}
"""Functions whose last node is another one than PyTorch's, with the reason."""


class Row(NamedTuple):
    """One call: the function, the labels of its picture, and the names of its last node."""

    function: str
    labels: tuple[str, ...]
    node: str
    node_in_pytorch: str
    is_one_node_in_pytorch: bool

    def wrong(self) -> str:
        """Return what is no public name, or nothing."""
        private = [label for label in self.labels if not is_public(label)]
        if private:
            return f"labels {private}"
        differs = self.is_one_node_in_pytorch and self.node != self.node_in_pytorch
        if differs and self.function not in OTHER_NODES:
            return f"grad_fn {self.node}, in PyTorch {self.node_in_pytorch}"
        return "" if is_node_of_public_function(self.node) else f"grad_fn {self.node}"


def plain(name: str) -> str:
    return name.replace("_", "").replace(".", "").lower()


@functools.cache
def public_names() -> frozenset[str]:
    """Return the names of all public functions and methods, as they are called."""
    names: set[str] = set()
    for namespace in NAMESPACES:
        owner = lookup(edutorch, namespace) if namespace else edutorch
        short = namespace.removeprefix("nn.").replace("functional", "").replace("Tensor", "")
        for name in dir(owner):
            if not name.startswith("_") and not isinstance(getattr(owner, name), types.ModuleType):
                names |= {name, f"{short}.{name}".lstrip(".")}
    return frozenset(names)


@functools.cache
def plain_public_names() -> frozenset[str]:
    return frozenset(map(plain, public_names()))


def is_public(label: str) -> bool:
    """Return whether a label consists of names of public functions (or of Python's operators).

    A label may sum up a group, "mul ×3 … add", or one of several results, "output 1".
    """
    names = re.sub(r" ×\d+|output \d+", "", label).split("…")
    return all(
        name in public_names() or not name or hasattr(operator, name)
        for name in map(str.strip, names)
    )


def is_node_of_public_function(node: str) -> bool:
    title = re.sub(r"Backward\d*(_copy)?$", "", node)
    names = {plain(title), re.sub("^(native|fused)", "", plain(title))}
    return bool(OF_PYTORCH.fullmatch(title) or title == "Index" or names & plain_public_names())


def last_node(result: Any) -> Any:
    """Return the first node of a graph among results."""
    if isinstance(result, (tuple, list)):
        return next((node for part in result if (node := last_node(part)) is not None), None)
    return getattr(result, "grad_fn", None)


def tensors_of(result: Any) -> list[Any]:
    if isinstance(result, (tuple, list)):
        return [tensor for part in result for tensor in tensors_of(part)]
    return [result] if getattr(result, "grad_fn", None) is not None else []


def is_one_node(node: Any) -> bool:
    """Return whether a node's inputs are leaves."""
    return all(
        before is None or before.name().endswith("AccumulateGrad")
        for before, _ in node.next_functions
    )


def rows() -> Iterator[Row]:
    """Yield a row for each sample that has a graph, of each function that edutorch has."""
    for info in op_db:
        if counterpart(info.name) is None or torch.float64 not in info.supported_dtypes("cpu"):
            continue
        checker = OpChecker(info)
        if not checker.differentiates(torch.float64):
            continue
        with seeded():
            samples = list(first(checker.samples(torch.float64, True), SAMPLES))
        for sample in samples:
            with contextlib.suppress(NoCounterpartError):
                yield from row_of(info.name, checker, sample)


def row_of(name: str, checker: OpChecker, sample: Any) -> Iterator[Row]:
    """Yield the row of one sample, if both libraries record a graph of it."""
    call = as_call(sample)
    ours_call = translated(call)
    with seeded():
        ours = ours_call.run(checker.ours)
    with seeded():
        theirs = call.run(checker.theirs)
    tensors, node, other = tensors_of(ours), last_node(ours), last_node(theirs)
    if node is None or other is None:
        return
    graph = viz.draw(tensors).snapshot.graph
    labels = {part.label for part in graph.nodes if part.grad_fn}
    yield Row(name, tuple(sorted(labels)), node.name(), other.name(), is_one_node(other))


def table(chosen: list[Row]) -> str:
    lines = ["| function | labels | grad_fn | in PyTorch | |", "|:--|:--|:--|:--|:--|"]
    for row in dict.fromkeys(chosen):
        pytorch = row.node_in_pytorch + ("" if row.is_one_node_in_pytorch else " (several)")
        cells = (row.function, " ".join(row.labels), row.node, pytorch, row.wrong())
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.slow.function_labels")
    parser.add_argument("--wrong", action="store_true", help="only what is no public name")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    every = list(rows())
    wrong = [row for row in every if row.wrong()]
    print(table(wrong if options.wrong else every))
    functions = len({row.function for row in every})
    print(f"\n{functions} functions, {len(every)} calls, {len(wrong)} with a name that is wrong")
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
