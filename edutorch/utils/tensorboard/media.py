"""Summaries that are encoded without tensorboardX: tensors, audio (WAV), video (GIF)."""

from __future__ import annotations

import io
import wave
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError, missing_extra
from .messages import message

__all__ = ["video_summary", "audio_summary", "tensor_summary"]

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
