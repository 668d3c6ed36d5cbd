"""The file of a program: a zip of JSON and safetensors, with a checksum of each part.

    program.json          the nodes, the signature, the ranges of sizes
    weights.safetensors   parameters, buffers, constants and example inputs
    seal.json             the format's version, and the SHA-256 of the other two

Nothing in it is code: functions are named, and only those that programs may call are known.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

from ..core.tensor import Tensor, wrap
from ..errors import ArgumentError, MissingExtraError
from ..fx.node import Node
from ..nn import Parameter
from ..utils._pytree import tree_flatten, tree_unflatten
from .encoding import (
    decode_graph,
    decode_spec,
    decode_value,
    encode_graph,
    encode_spec,
    encode_value,
)  # fmt: skip
from .errors import ProgramFileError
from .program import CallSpec, ExportedProgram, ValueRange, require_program
from .signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)  # fmt: skip

try:  # a browser may lack it
    import safetensors.numpy as safetensors
except ImportError:
    safetensors = None  # type: ignore[assignment]

__all__ = ["load", "save"]

VERSION = 1
PARTS = ("program.json", "weights.safetensors")
SEAL = "seal.json"
LARGEST_JSON = 2**28
"""In bytes: a program of a million nodes is smaller."""

File = str | os.PathLike[str] | IO[bytes]


def save(
    ep: ExportedProgram, f: File, *, extra_files: Mapping[str, str | bytes] | None = None
) -> None:
    """Write a program to a file.

    Args:
        ep: the program.
        f: a path or a binary file.
        extra_files: further texts by name; `load` returns those that it is asked for.

    Raises:
        ArgumentError: `ep` is no program.
        ExportError: an argument in the graph has no form in a file.
    """
    require_safetensors("export.save")
    require_program("export.save", ep)
    weights = {f"state/{name}": tensor for name, tensor in ep.state_dict.items()}
    weights |= {f"constant/{name}": tensor for name, tensor in ep.constants.items()}
    example = encode_example(ep, weights)
    program = {
        "graph": encode_graph(ep.graph_module),
        "inputs": [encode_input(spec) for spec in ep.graph_signature.input_specs],
        "outputs": [encode_output(spec) for spec in ep.graph_signature.output_specs],
        "ranges": {name: [r.lower, r.upper] for name, r in ep.range_constraints.items()},
        "call": {
            "in": encode_spec(ep.call_spec.in_spec), "out": encode_spec(ep.call_spec.out_spec),
            "names": ep.call_spec.names,
        },
        "parameters": [name for name, t in ep.state_dict.items() if isinstance(t, Parameter)],
        "example": example,
    }  # fmt: skip
    arrays = {name: np.array(t.detach().numpy(), order="C") for name, t in weights.items()}
    parts = {
        "program.json": json.dumps(program, separators=(",", ":")).encode(),
        "weights.safetensors": safetensors.save(arrays),
    }
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()}
    seal = json.dumps({"format": "edutorch program", "version": VERSION, "sha256": sums})
    with zipfile.ZipFile(f, "w") as archive:
        for name, data in {**parts, SEAL: seal.encode()}.items():
            archive.writestr(name, data)
        for name, text in (extra_files or {}).items():
            archive.writestr(f"extra/{name}", text)


def load(
    f: File, *, extra_files: dict[str, Any] | None = None,
    expected_opset_version: Mapping[str, int] | None = None,
) -> ExportedProgram:  # fmt: skip
    """Read a program. Nothing in the file is executed.

    Args:
        f: a path or a binary file.
        extra_files: its keys name texts that were saved along; they become its values.
        expected_opset_version: accepted; the file says its own version.

    Raises: ProgramFileError: it is no program, is damaged, or is of a newer version.
    """
    require_safetensors("export.load")
    if not isinstance(f, str | os.PathLike) and not hasattr(f, "read"):
        raise ArgumentError("export.load", f"f is a {type(f).__name__}, not a path or a file")
    try:
        with zipfile.ZipFile(f) as archive:
            parts = read_parts(archive)
            for name in extra_files or {}:
                assert extra_files is not None
                extra_files[name] = archive.read(f"extra/{name}").decode()
        return decode_program(json.loads(parts[PARTS[0]]), safetensors.load(parts[PARTS[1]]))
    except (ProgramFileError, FileNotFoundError, MissingExtraError):
        raise
    except Exception as error:  # whatever a damaged file brings about
        raise ProgramFileError(f"the file is damaged: {type(error).__name__}: {error}") from error


def require_safetensors(purpose: str) -> None:
    if safetensors is None:
        raise MissingExtraError(
            purpose, "safetensors is not installed", hint="pip install safetensors"
        )


def read_parts(archive: zipfile.ZipFile) -> dict[str, bytes]:
    """Return the parts of a file, after comparing their checksums."""
    names = set(archive.namelist())
    if SEAL not in names:
        by_torch = any(name.endswith(("models/model.json", "data.pkl")) for name in names)
        raise ProgramFileError(
            "it was written by PyTorch" if by_torch else "it is no program of edutorch",
            "torch.export.save of edutorch writes one; weights are read by torch.load",
        )
    sizes = {info.filename: info.file_size for info in archive.infolist()}
    if sizes[SEAL] > 2**16 or sizes.get(PARTS[0], 0) > LARGEST_JSON:
        raise ProgramFileError("a part is larger than any program's")
    seal = json.loads(archive.read(SEAL))
    if seal["version"] > VERSION:
        raise ProgramFileError(
            f"its version is {seal['version']}, and this edutorch reads up to {VERSION}",
            "pip install -U edutorch",
        )
    parts = {name: archive.read(name) for name in PARTS}
    for name, data in parts.items():
        if hashlib.sha256(data).hexdigest() != seal["sha256"][name]:
            raise ProgramFileError(f"{name} is damaged: its checksum differs")
    return parts


def decode_program(data: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> ExportedProgram:
    """Return the program of the parts of a file."""
    tensors = {name: wrap(np.array(array)) for name, array in arrays.items()}
    trainable = set(data["parameters"])
    state = {
        name: Parameter(tensor) if name in trainable else tensor
        for name, tensor in by_prefix(tensors, "state/").items()
    }
    inputs = [decode_input(row) for row in data["inputs"]]
    outputs = [decode_output(row) for row in data["outputs"]]
    call = data["call"]
    module = decode_graph(data["graph"])
    check_inputs(module.graph.find_nodes(op="placeholder"), inputs)
    call_spec = CallSpec(
        decode_spec(call["in"]), decode_spec(call["out"]), [str(name) for name in call["names"]]
    )
    ranges = {str(name): ValueRange(int(a), int(b)) for name, (a, b) in data["ranges"].items()}
    example = decode_example(data["example"], by_prefix(tensors, "example/"), call_spec)
    return ExportedProgram(
        module, ExportGraphSignature(inputs, outputs), state, by_prefix(tensors, "constant/"),
        ranges, call_spec, example,
    )  # fmt: skip


def check_inputs(placeholders: list[Node], inputs: list[InputSpec]) -> None:
    """Raise ProgramFileError unless the graph has the inputs of the signature."""
    named = [spec.arg.name for spec in inputs if isinstance(spec.arg, TensorArgument)]
    if [node.name for node in placeholders] != named:
        raise ProgramFileError("the graph has other inputs than the signature")


def by_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin so, without that beginning."""
    return {n.removeprefix(prefix): tensor for n, tensor in tensors.items() if n.startswith(prefix)}


# The signature as JSON ----------------------------------------------------------------------------


def encode_argument(argument: TensorArgument | ConstantArgument) -> dict[str, Any]:
    if isinstance(argument, TensorArgument):
        return {"name": argument.name}
    return {"name": argument.name, "value": encode_value(argument.value)}


def decode_argument(row: dict[str, Any]) -> TensorArgument | ConstantArgument:
    if "value" in row:
        return ConstantArgument(str(row["name"]), decode_value(row["value"], {}))
    return TensorArgument(str(row["name"]))


def encode_input(spec: InputSpec) -> dict[str, Any]:
    return {
        "kind": spec.kind.name, "arg": encode_argument(spec.arg), "target": spec.target,
        "persistent": spec.persistent,
    }  # fmt: skip


def decode_input(row: dict[str, Any]) -> InputSpec:
    argument, target = decode_argument(row["arg"]), row["target"]
    return InputSpec(InputKind[row["kind"]], argument, target, row["persistent"])


def encode_output(spec: OutputSpec) -> dict[str, Any]:
    return {"kind": spec.kind.name, "arg": encode_argument(spec.arg), "target": spec.target}


def decode_output(row: dict[str, Any]) -> OutputSpec:
    return OutputSpec(OutputKind[row["kind"]], decode_argument(row["arg"]), row["target"])


# Example inputs -----------------------------------------------------------------------------------


def encode_example(ep: ExportedProgram, weights: dict[str, Tensor]) -> Any:
    """Return the example inputs as JSON; their tensors are added to the weights."""
    if ep.example_inputs is None:
        return None
    leaves: list[Any] = []
    for index, leaf in enumerate(tree_flatten(ep.example_inputs)[0]):
        if isinstance(leaf, Tensor):
            weights[f"example/{index}"] = leaf
            leaves.append({"tensor": str(index)})
        else:
            leaves.append({"value": encode_value(leaf)})
    return leaves


def decode_example(rows: Any, tensors: Mapping[str, Tensor], call_spec: CallSpec) -> Any:
    """Return the example inputs of a file, or None."""
    if rows is None:
        return None
    leaves = [
        tensors[row["tensor"]] if "tensor" in row else decode_value(row["value"], {})
        for row in rows
    ]
    return tree_unflatten(leaves, call_spec.in_spec)
