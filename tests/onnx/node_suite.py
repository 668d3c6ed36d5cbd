"""The cases for single ops that the package `onnx` carries, run on what `onnx.load` makes of them.

python -m tests.onnx.node_suite             # all, with a table: op, passed, refused, wrong
python -m tests.onnx.node_suite Resize      # the cases whose name contains a text, in full
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

import edutorch
from edutorch.errors import EdutorchError, NotHereError
from edutorch.onnx import ModelFileError, load

DRAWN = ("bernoulli", "training_dropout")
"""Cases with random numbers: only shape and dtype are compared."""


class Outcome(NamedTuple):
    """How one case went.

    Args:
        name: of the case.
        op: that it is about.
        group: "plain", "sequence", "low" (floats and integers of 8 bits or less), …
        verdict: "passed", "refused", "wrong" or "error".
        reason: in words.
    """

    name: str
    op: str
    group: str
    verdict: str
    reason: str = ""


def all_cases() -> list[Any]:
    """Return the cases, in a fixed order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        return sorted(collect_testcases(None), key=lambda case: case.name)


def value_infos(model: Any) -> list[Any]:
    return [*model.graph.input, *model.graph.output]


def group_of(case: Any) -> str:
    """Return what kind of values a case is about."""
    from onnx import TensorProto

    containers = {value.type.WhichOneof("value") for value in value_infos(case.model)}
    if containers - {"tensor_type", None}:
        return "sequence"
    elements = {value.type.tensor_type.elem_type for value in value_infos(case.model)}
    if TensorProto.STRING in elements:
        return "string"
    if elements & set(range(TensorProto.FLOAT8E4M3FN, 40)):
        return "low"
    if any(node.domain not in ("", "ai.onnx") for node in case.model.graph.node):
        return "domain"
    ops = {node.op_type for node in case.model.graph.node}
    if any("Quantize" in op or op.startswith("QLinear") or "Integer" in op for op in ops):
        return "quantized"
    return "plain"


def op_of(case: Any) -> str:
    """Return the op that a case is about; of an expanded one, the name of the case."""
    nodes = case.model.graph.node
    return nodes[0].op_type if len(nodes) == 1 else case.name.removeprefix("test_").split("_")[0]


def as_value(value: Any, type_proto: Any = None) -> Any:
    """Return an input of a case as tensors."""
    import onnx

    if value is None:
        return None
    if isinstance(value, list | tuple):
        return [as_value(item) for item in value]
    if isinstance(value, onnx.TensorProto):
        value = onnx.numpy_helper.to_array(value)
    array = np.array(value)  # 0-d arrays may come as scalars
    return edutorch.from_numpy(array)


def check_equal(actual: Any, expected: Any, case: Any) -> str:
    """Return how a result differs from what is expected, or ""."""
    import onnx

    if expected is None or actual is None:
        return "" if actual is expected else f"{actual} instead of {expected}"
    if isinstance(expected, list | tuple):
        if not isinstance(actual, list | tuple) or len(actual) != len(expected):
            return f"{type(actual).__name__} instead of a list of {len(expected)}"
        return next(
            filter(None, (check_equal(a, e, case) for a, e in zip(actual, expected, strict=True))),
            "",
        )
    if isinstance(expected, onnx.TensorProto):
        expected = onnx.numpy_helper.to_array(expected)
    expected = np.asarray(expected)
    if not isinstance(actual, edutorch.Tensor):
        return f"{type(actual).__name__} instead of a tensor"
    if actual.dtype != edutorch.from_numpy(np.array(expected)).dtype:
        return f"{actual.dtype} instead of {expected.dtype}"
    if tuple(actual.shape) != expected.shape:
        return f"shape {tuple(actual.shape)} instead of {expected.shape}"
    if any(text in case.name for text in DRAWN):
        return ""
    # Two units in the last place: what onnx's own runner allows for bfloat16.
    rounding = {"bfloat16": 2**-6, "float16": 2**-9}.get(expected.dtype.name, 0.0)
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    exact = expected.dtype.kind in "iub"
    own = np.asarray(actual.detach().numpy())
    if exact:
        same = np.array_equal(own, expected)
        return (
            "" if same else f"max error {np.max(np.abs(own.astype(wide) - expected.astype(wide)))}"
        )
    try:
        np.testing.assert_allclose(
            own.astype(wide), expected.astype(wide), rtol=max(case.rtol, rounding), atol=case.atol
        )
    except AssertionError as error:
        return " ".join(str(error).split())[:150]
    return ""


def run_case(case: Any) -> Outcome:
    """Load the model of a case, run it on its data, and compare."""
    name, op, group = case.name, op_of(case), group_of(case)
    try:
        module = load(case.model.SerializeToString())
        for inputs, outputs in case.data_sets:
            specs = module.inputs
            values = [as_value(value) for value in inputs]
            results = module(*values[: len(specs)])
            results = results if len(module.outputs) > 1 else (results,)
            wrong = [check_equal(a, e, case) for a, e in zip(results, outputs, strict=True)]
            if any(wrong):
                return Outcome(name, op, group, "wrong", next(filter(None, wrong)))
    except (NotHereError, ModelFileError) as error:
        return Outcome(name, op, group, "refused", " ".join(str(error).split())[:150])
    except Exception as error:  # noqa: BLE001 (what escapes is what is looked for)
        known = "own " if isinstance(error, EdutorchError) else ""
        text = " ".join(str(error).split())[:200]
        return Outcome(name, op, group, "error", f"{known}{type(error).__name__}: {text}")
    return Outcome(name, op, group, "passed")


def table(outcomes: Iterable[Outcome]) -> str:
    """Return a line for each op, and the sums of each group."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for outcome in outcomes:
        rows[outcome.op][outcome.verdict] += 1
        groups[outcome.group][outcome.verdict] += 1
    verdicts = ("passed", "refused", "wrong", "error")
    lines = [f"{'op':32}" + "".join(f"{verdict:>9}" for verdict in verdicts)]
    for part in (rows, groups):
        for key in sorted(part):
            lines.append(f"{key:32}" + "".join(f"{part[key][v]:9}" for v in verdicts))
        lines.append("")
    total = Counter(v for counter in groups.values() for v in counter.elements())
    return "\n".join([*lines, f"{'all':32}" + "".join(f"{total[v]:9}" for v in verdicts)])


def main(arguments: Sequence[str]) -> int:
    """Run the cases whose name contains an argument (all without one), and print the table."""
    chosen = [
        case for case in all_cases()
        if not arguments or any(text.lower() in case.name.lower() for text in arguments)
    ]  # fmt: skip
    outcomes = [run_case(case) for case in chosen]
    for outcome in outcomes:
        if outcome.verdict in ("wrong", "error") or (arguments and outcome.verdict == "refused"):
            print(f"{outcome.verdict:8} {outcome.name}: {outcome.reason}")
    print(table(outcomes))
    return int(any(outcome.verdict in ("wrong", "error") for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
