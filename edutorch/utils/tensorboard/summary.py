"""What tensorboardX does not encode for TensorBoard: tensors, audio (WAV), video (GIF), graphs."""

from __future__ import annotations

import io
import wave
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from ...core.tensor import Tensor
from ...errors import DTypeError, ShapeError, missing_extra
from ...events import ModuleEntered, ModuleLeft, OpApplied, listening
from ...modes import no_grad
from ...nn import Module
from .._pytree import tree_leaves

__all__ = ["audio_summary", "build_graph", "message", "tensor_summary", "video_summary"]


def message(name: str) -> Any:
    """Return a protocol buffer message class, imported on first use.

    "summary.Summary" is `tensorboardX.proto.summary_pb2.Summary`.

    Raises: MissingExtraError: tensorboardX is not installed.
    """
    module, _, message_name = name.partition(".")
    try:
        return getattr(import_module(f"tensorboardX.proto.{module}_pb2"), message_name)
    except ModuleNotFoundError as error:
        raise missing_extra("logging", "SummaryWriter", f"{error.name} is not installed") from error


# Tensors, audio, video --------------------------------------------------------------------------

PROTO_DTYPES = {
    "float16": "DT_HALF", "float32": "DT_FLOAT", "float64": "DT_DOUBLE", "int8": "DT_INT8",
    "int16": "DT_INT16", "int32": "DT_INT32", "int64": "DT_INT64", "uint8": "DT_UINT8",
    "bool": "DT_BOOL", "complex64": "DT_COMPLEX64", "complex128": "DT_COMPLEX128",
}  # fmt: skip


def tensor_summary(tag: str, array: np.ndarray, plugin: str) -> Any:
    """Return a summary of an array, for one of TensorBoard's plugins."""
    if array.dtype.name not in PROTO_DTYPES:
        raise DTypeError("add_tensor", "TensorBoard has no such type", {tag: array.dtype.name})
    summary = message("summary.Summary")()
    value = summary.value.add(tag=tag)
    value.tensor.dtype = message("types.DataType").Value(PROTO_DTYPES[array.dtype.name])
    for size in array.shape:
        value.tensor.tensor_shape.dim.add(size=size)
    value.tensor.tensor_content = np.ascontiguousarray(array).tobytes()
    value.metadata.plugin_data.plugin_name = plugin
    return summary


def audio_summary(tag: str, samples: np.ndarray, sample_rate: int) -> Any:
    """Return an audio summary: 16-bit PCM of samples from -1 to 1."""
    samples = samples.squeeze()
    if samples.ndim != 1:
        raise ShapeError("add_audio", "needs one axis: time", {tag: samples.shape})
    # 32767 and not 32768: +1 would overflow to the lowest sample, an audible click.
    data = (np.clip(samples, -1, 1) * np.iinfo(np.int16).max).astype("<i2").tobytes()
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(sample_rate)
        writer.writeframes(data)
    summary = message("summary.Summary")()
    audio = summary.value.add(tag=tag).audio
    audio.sample_rate, audio.num_channels, audio.length_frames = sample_rate, 1, len(samples)
    audio.encoded_audio_string, audio.content_type = file.getvalue(), "audio/wav"
    return summary


def video_summary(tag: str, videos: np.ndarray, fps: float) -> Any:
    """Return a summary of videos of shape (N, T, C, H, W), side by side."""
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise missing_extra("logging", "add_video", f"{error.name} is not installed") from error
    if videos.dtype != np.uint8:
        videos = (np.clip(videos, 0, 1) * 255).astype(np.uint8)
    # Side by side is along the width, the last axis; GIF wants the colours last.
    frames = np.concatenate(list(videos), axis=-1).transpose(0, 2, 3, 1)  # T, H, N · W, C
    if frames.shape[-1] not in (1, 3):
        raise ShapeError("add_video", "needs 1 or 3 colours", {tag: videos.shape})
    pictures = [Image.fromarray(np.broadcast_to(frame, (*frame.shape[:2], 3))) for frame in frames]
    file = io.BytesIO()
    pictures[0].save(
        file, format="GIF", save_all=True, append_images=pictures[1:], loop=0,
        duration=round(1000 / fps),
    )  # fmt: skip
    summary = message("summary.Summary")()
    image = summary.value.add(tag=tag).image
    image.height, image.width, image.colorspace = frames.shape[1], frames.shape[2], 3
    image.encoded_image_string = file.getvalue()
    return summary


# Graphs -----------------------------------------------------------------------------------------


def build_graph(model: Module, inputs: Tensor | Sequence[Any]) -> Any:
    """Run a model and return the graph of its ops, inside a box for each module."""
    arguments = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    builder = GraphBuilder(model)
    for number, tree_leaf in enumerate(tree_leaves(arguments)):
        if isinstance(tree_leaf, Tensor):
            builder.add("input", f"input/{number}", (), tree_leaf)
    with no_grad(), listening(builder):
        output = model(*arguments)
    for number, tree_leaf in enumerate(tree_leaves(output)):
        if isinstance(tree_leaf, Tensor):
            builder.add("output", f"output/{number}", (tree_leaf,), None)
    versions = message("versions.VersionDef")(
        producer=22
    )  # the version of graphs that PyTorch writes
    return message("graph.GraphDef")(node=builder.nodes, versions=versions)


class GraphBuilder:
    """Adds a node for each op, named by the modules around it."""

    def __init__(self, model: Module) -> None:
        start = type(model).__name__
        self.paths = {
            id(module): f"{start}/{name.replace('.', '/')}".rstrip("/")
            for name, module in model.named_modules()
        }
        self.parameters = {
            id(parameter): f"{start}/{name.replace('.', '/')}"
            for name, parameter in (*model.named_parameters(), *model.named_buffers())
        }
        self.module_stack: list[str] = []
        self.nodes: list[Any] = []
        self.node_names: dict[int, str] = {}  # the node of a tensor, by id
        self.keep_alive: list[Any] = []  # so that no id is reused
        self.name_counts: dict[str, int] = {}

    def __call__(self, event: object) -> None:
        """Handle one event."""
        if isinstance(event, ModuleEntered):
            self.module_stack.append(self.paths.get(id(event.module), type(event.module).__name__))
        elif isinstance(event, ModuleLeft):
            self.module_stack.pop()
        elif isinstance(event, OpApplied):
            scope = self.module_stack[-1] if self.module_stack else "outside"
            outputs = [
                tree_leaf
                for tree_leaf in tree_leaves(event.output)
                if isinstance(tree_leaf, Tensor)
            ]
            first = outputs[0] if outputs else None
            name = self.add(event.op.label, f"{scope}/{event.op.label}", event.inputs, first)
            for output in outputs[1:]:
                self.node_names[id(output)] = name

    def add(self, op: str, name: str, inputs: tuple[Any, ...], output: object) -> str:
        """Add a node, with edges from the nodes of its inputs."""
        edges = [self.source_name(input_) for input_ in inputs if isinstance(input_, Tensor)]
        name = self.unused_name(name)
        node = message("node_def.NodeDef")(name=name, op=op, input=edges)
        if isinstance(output, Tensor):
            sizes = node.attr["_output_shapes"].list.shape.add()
            for size in output.shape:
                sizes.dim.add(size=size)
            self.node_names[id(output)] = name
            self.keep_alive.append(output)
        self.nodes.append(node)
        return name

    def source_name(self, tensor: Tensor) -> str:
        """Return the node of a tensor; a parameter or constant gets one on first use."""
        if id(tensor) not in self.node_names:
            self.keep_alive.append(tensor)
            known = self.parameters.get(id(tensor))
            self.add("parameter" if known else "constant", known or "constant", (), tensor)
        return self.node_names[id(tensor)]

    def unused_name(self, name: str) -> str:
        """Return an unused name."""
        count = self.name_counts.get(name, 0)
        self.name_counts[name] = count + 1
        return f"{name}_{count}" if count else name
