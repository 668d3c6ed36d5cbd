"""A stand-in for cuDNN: the installed frontend builds and checks the graphs, NumPy computes them.

The frontend's graphs are Python objects, so everything up to `build` is the real package. Names of
arguments are compared with the signatures of its compiled half, which it would see only later.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from edutorch import dtypes
from edutorch.nn.functional import conv
from tests.gpu.recording import RECORDER
from tests.gpu.stand_ins import memory


def cudnn() -> Any:
    """Return the stand-in for the module `cudnn`."""
    real = pytest.importorskip("cudnn", reason="needs nvidia-cudnn-frontend: see `make test-gpu`")
    return Cudnn(real)


class Cudnn:
    """The module: its enumerations and errors are the real ones."""

    def __init__(self, real: Any) -> None:
        self.real, self.streams, self.graphs = real, dict[int, int](), list[Any]()
        self.refused = set[str]()  # nodes that it has no engine for
        stand_in = self

        class Graph(real.pygraph):
            """A graph that NumPy computes."""

            def build(self, heuristics: Any = None, ctx: Any = None) -> None:
                assert RECORDER.operations is None, "a graph is built while a step is captured"
                assert all(mode in real.heur_mode.__members__.values() for mode in heuristics)
                for node in self.nodes:
                    check_node(real, node)
                    if node.name.partition(".")[0] in stand_in.refused:
                        raise real.cudnnGraphNotSupportedError("no engine")
                stand_in.graphs.append(self)

            def get_workspace_size(self, *args: Any) -> int:
                return 512

            def execute(self, tensor_dict: Any, workspace: Any = None, handle: Any = None) -> None:
                run(stand_in, self, tensor_dict, workspace, handle)

        self.pygraph = Graph

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def create_handle(self) -> Any:
        return self.real.Handle(7, 0, 0)

    def set_stream(self, handle: Any, stream: int) -> None:
        assert isinstance(stream, int)
        self.streams[id(handle)] = stream


def check_node(real: Any, node: Any) -> None:
    """Compare the arguments of a node with the signature of the compiled half."""
    name = node.name.partition(".")[0]
    text = getattr(real._compiled_module.backend_graph, name).__doc__
    known = set(re.findall(r"(\w+): ", text)) | {"in0", "in1"}
    names = set(node.params) | set(node.inputs)
    if name not in ("bias", "relu"):
        assert names <= known, f"{name} has no argument {names - known}"
    if name.startswith("batchnorm"):  # its lowering needs all of them, though Python does not
        required = set(re.findall(r"(\w+): cudnn\._compiled_module\.tensor[,)]", text))
        assert required <= names, f"{name} needs {required - names}"
    for tensor in filter(None, (*node.inputs.values(), *node.outputs.values())):
        assert tensor.is_virtual or len(tensor.dim) == len(tensor.stride)


def run(stand_in: Cudnn, graph: Any, pack: Any, workspace: Any, handle: Any) -> None:
    """Compute a graph: its inputs and outputs are all in the pack."""
    nodes = graph.nodes
    made = [tensor for node in nodes for tensor in node.outputs.values()]
    read = [tensor for node in nodes for tensor in node.inputs.values()]
    needed = {t.uid for t in read if t not in made} | {t.uid for t in made if not t.is_virtual}
    assert {tensor.uid for tensor in pack} == needed, "not every input and output has an address"
    addresses = {tensor.uid: value.data_ptr() for tensor, value in pack.items()}
    assert workspace.data_ptr()
    # Numbers of the host are read by the call itself, not by a replay of it.
    scalars = {
        tensor.uid: float(memory(addresses[tensor.uid], (1,), (1,), np.float32)[0])
        for tensor in pack if tensor.is_pass_by_value
    }  # fmt: skip

    def array(tensor: Any) -> np.ndarray:
        address = addresses[tensor.uid]
        name = tensor.data_type.name
        types_ = {"FLOAT": np.float32, "DOUBLE": np.float64, "HALF": np.float16,
                 "BFLOAT16": dtypes.bfloat16.numpy}  # fmt: skip
        return memory(address, tuple(tensor.dim), tuple(tensor.stride), types_[name])

    def work() -> None:
        values: dict[int, Any] = dict(scalars)
        for node in nodes:
            inputs = {
                name: values[t.uid] if t.uid in values else np.asarray(array(t), np.float32)
                for name, t in node.inputs.items()
            }  # fmt: skip
            results = COMPUTE[node.name.partition(".")[0]](inputs, node.params, node.outputs)
            outputs = [tensor for tensor in node.outputs.values() if tensor is not None]
            for tensor, value in zip(outputs, results, strict=False):
                values[tensor.uid] = value
                if not tensor.is_virtual:
                    array(tensor)[...] = value

    RECORDER.launch("cudnnBackendExecute", stand_in.streams[id(handle)], work)


def window(params: Any) -> tuple[Any, ...]:
    pads = tuple(zip(params["pre_padding"], params["post_padding"], strict=True))
    return tuple(params["stride"]), pads, tuple(params["dilation"])


def groups_of(channels: int, weight: tuple[int, ...]) -> int:
    return channels // weight[1]


def conv_fprop(inputs: Any, params: Any, outputs: Any) -> list[Any]:
    x, w = inputs["image"], inputs["weight"]
    stride, pads, dilation = window(params)
    groups = groups_of(x.shape[1], w.shape)
    return [conv.conv_nd.op.forward(np, x, w, None, stride, pads, dilation, groups)]


def conv_dgrad(inputs: Any, params: Any, outputs: Any) -> list[Any]:
    (output,) = outputs.values()
    stride, pads, dilation = window(params)
    w = inputs["filter"]
    size, groups = tuple(output.dim[2:]), groups_of(output.dim[1], w.shape)
    forward = conv.conv_transpose_nd.op.forward
    return [forward(np, inputs["loss"], w, size, stride, pads, dilation, groups)]


def conv_wgrad(inputs: Any, params: Any, outputs: Any) -> list[Any]:
    (output,) = outputs.values()
    stride, pads, dilation = window(params)
    x, g = inputs["image"], inputs["loss"]
    kernel, groups = tuple(output.dim[2:]), groups_of(x.shape[1], tuple(output.dim))
    return [conv.conv_weight_grad.op.forward(np, x, g, kernel, stride, pads, dilation, groups)]


def pointwise(inputs: Any, params: Any, outputs: Any) -> list[Any]:
    values = list(inputs.values())
    return [values[0] + values[1] if len(values) == 2 else np.maximum(values[0], 0)]


def probabilities(q: Any, k: Any, params: Any) -> tuple[Any, Any]:
    scores = params["attn_scale"] * (q @ k.swapaxes(2, 3))
    if params["use_causal_mask"]:
        scores = np.where(np.tri(*scores.shape[2:], dtype=bool), scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    total = top + np.log(np.exp(scores - top).sum(-1, keepdims=True))
    return np.exp(scores - total), total


def sdpa(inputs: Any, params: Any, outputs: Any) -> list[Any]:
    weights, total = probabilities(inputs["q"], inputs["k"], params)
    return [weights @ inputs["v"], total]


def sdpa_backward(inputs: Any, params: Any, outputs: Any) -> list[Any]:
    q, k, v, g = inputs["q"], inputs["k"], inputs["v"], inputs["dO"]
    weights, total = probabilities(q, k, params)
    np.testing.assert_allclose(total, inputs["stats"], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(weights @ v, inputs["o"], rtol=0.1, atol=0.05)
    by_weights = g @ v.swapaxes(2, 3)
    by_scores = weights * (by_weights - (by_weights * weights).sum(-1, keepdims=True))
    by_scores = by_scores * params["attn_scale"]
    return [by_scores @ k, by_scores.swapaxes(2, 3) @ q, weights.swapaxes(2, 3) @ g]


def statistics(x: Any) -> tuple[Any, Any]:
    return x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)


def batchnorm(inputs: Any, params: Any, outputs: Any) -> list[Any]:
    x, before, share = inputs["input"], inputs["in_running_mean"], inputs["momentum"]
    mean, variance = statistics(x)
    inverse = 1 / np.sqrt(variance + inputs["epsilon"])
    y = (x - mean) * inverse * inputs["scale"] + inputs["bias"]
    after = (1 - share) * inputs["in_running_var"] + share * variance
    return [y, mean, inverse, (1 - share) * before + share * mean, after]


def batchnorm_inference(inputs: Any, params: Any, outputs: Any) -> list[Any]:
    x = (inputs["input"] - inputs["mean"]) * inputs["inv_variance"]
    return [x * inputs["scale"] + inputs["bias"]]


def batchnorm_backward(inputs: Any, params: Any, outputs: Any) -> list[Any]:
    g, x, axes = inputs["grad"], inputs["input"], (0, 2, 3)
    mean, variance = statistics(x)
    np.testing.assert_allclose(inputs["mean"], mean, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(inputs["inv_variance"] ** -2, variance, rtol=1e-2, atol=1e-3)
    z = (x - inputs["mean"]) * inputs["inv_variance"]
    h = g * inputs["scale"]
    rest = h - h.mean(axes, keepdims=True) - z * (h * z).mean(axes, keepdims=True)
    sums = (g * z).sum(axes, keepdims=True), g.sum(axes, keepdims=True)
    return [rest * inputs["inv_variance"], *sums]


COMPUTE = {
    "conv_fprop": conv_fprop, "conv_dgrad": conv_dgrad, "conv_wgrad": conv_wgrad,
    "bias": pointwise, "relu": pointwise, "sdpa": sdpa, "sdpa_backward": sdpa_backward,
    "batchnorm": batchnorm, "batchnorm_inference": batchnorm_inference,
    "batchnorm_backward": batchnorm_backward,
}  # fmt: skip
