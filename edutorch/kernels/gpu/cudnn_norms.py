"""Batch norm of images by cuDNN: forward in training, with running statistics, and backward.

cuDNN keeps the mean and 1 / √(variance + ε) of each channel in float32, also for 16-bit images.
Where it has no graph for a layout or a dtype, the kernels in `channel_norms.py` compute.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import backends
from ...backends.numpy import Array
from .cudnn import HALVES, Host, mark_output, run_graph

__all__ = ["batch_norm", "batch_norm_backward", "batch_norm_by_statistics"]

DTYPES = ("float32", *HALVES)
FLOAT = np.dtype("float32")


def by_channel(array: Array | None, input: Array, default: float) -> Array:
    """Return one number of float32 for each channel, as cuDNN reads it: (1, c, 1, 1)."""
    xp, channels = backends.of(input).xp, input.shape[1]
    if array is None:
        return xp.full((1, channels, 1, 1), default, FLOAT)
    return array.astype(FLOAT, copy=False).reshape(1, channels, 1, 1)


def is_supported(input: Array, *parameters: Array | None) -> bool:
    """Whether this is an image (n, c, h, w), and parameters are what float32 can hold."""
    is_image = input.ndim == 4 and input.dtype.name in DTYPES and bool(input.size)
    return is_image and all(array is None or array.dtype.name in DTYPES for array in parameters)


def as_rows(array: Array) -> Array:
    """Return an array, or a copy of it that is contiguous."""
    return array if array.flags.c_contiguous else backends.of(array).xp.ascontiguousarray(array)


# Forward -----------------------------------------------------------------------------------------


def build_batch_norm(
    module: Any, graph: Any, t: dict[str, Any], shape: tuple[int, ...]
) -> dict[str, Any]:
    channels, wide = (1, shape[1], 1, 1), module.data_type.FLOAT
    y, mean, inverse, *running = graph.batchnorm(
        input=t["input"], scale=t["weight"], bias=t["bias"], in_running_mean=t["mean_before"],
        in_running_var=t["variance_before"], epsilon=t["eps"], momentum=t["momentum"],
    )  # fmt: skip
    results = {"mean": mean, "inverse": inverse, "mean_after": running[0],
               "variance_after": running[1]}  # fmt: skip
    made = {name: mark_output(tensor, channels, wide) for name, tensor in results.items()}
    return {"y": mark_output(y, shape, t["input"].get_data_type()), **made}


def batch_norm(
    input: Array, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array] | None:
    """Return y, and the mean and the variance of each channel in float32; or None.

    Args:
        input: (n, c, h, w).
        weight, bias: (c), of float32 or 16-bit floats.
    """
    if not is_supported(input, weight, bias):
        return None
    scale = by_channel(weight, input, 1.0)
    arrays: dict[str, Any] = {"input": as_rows(input), "weight": scale}
    arrays["bias"] = by_channel(bias, input, 0.0)
    # The frontend cannot leave the running statistics out. Ours are moved on by `batch_norm` as on
    # the CPU, so whatever array of that shape does for cuDNN's, and its results are not read.
    arrays |= {"mean_before": scale, "variance_before": scale}
    arrays |= {"eps": Host(eps), "momentum": Host(1.0)}
    names = ("mean", "inverse", "mean_after", "variance_after")
    outputs: dict[str, Any] = dict.fromkeys(names, (scale.shape, FLOAT))
    outputs["y"] = (input.shape, input.dtype)
    made = run_graph(build_batch_norm, arrays, (tuple(input.shape),), outputs)
    if made is None:
        return None
    variance = made["inverse"].reshape(-1) ** -2 - FLOAT.type(eps)
    return made["y"], made["mean"].reshape(-1), variance


def build_by_statistics(
    module: Any, graph: Any, t: dict[str, Any], shape: tuple[int, ...]
) -> dict[str, Any]:
    y = graph.batchnorm_inference(
        input=t["input"], mean=t["mean"], inv_variance=t["inverse"], scale=t["weight"],
        bias=t["bias"],
    )  # fmt: skip
    return {"y": mark_output(y, shape, t["input"].get_data_type())}


def batch_norm_by_statistics(
    input: Array, mean: Array, variance: Array, weight: Array | None, bias: Array | None, eps: float
) -> Any:
    """Return batch norm by running statistics (c) in place of the batch's own; or None."""
    if not is_supported(input, mean, variance, weight, bias):
        return None
    inverse = 1 / backends.of(input).xp.sqrt(variance.astype(FLOAT, copy=False) + FLOAT.type(eps))
    arrays = {
        "input": as_rows(input), "mean": by_channel(mean, input, 0.0),
        "inverse": inverse.reshape(1, -1, 1, 1), "weight": by_channel(weight, input, 1.0),
        "bias": by_channel(bias, input, 0.0),
    }  # fmt: skip
    shape = tuple(input.shape)
    made = run_graph(build_by_statistics, arrays, (shape,), {"y": (shape, input.dtype)})
    return None if made is None else made["y"]


# Backward ----------------------------------------------------------------------------------------


def build_batch_norm_backward(
    module: Any, graph: Any, t: dict[str, Any], shape: tuple[int, ...]
) -> dict[str, Any]:
    dx, dweight, dbias = graph.batchnorm_backward(
        grad=t["g"], input=t["input"], scale=t["weight"], mean=t["mean"], inv_variance=t["inverse"]
    )
    channels, wide = (1, shape[1], 1, 1), module.data_type.FLOAT
    return {
        "dx": mark_output(dx, shape, t["input"].get_data_type()),
        "dweight": mark_output(dweight, channels, wide),
        "dbias": mark_output(dbias, channels, wide),
    }


def batch_norm_backward(
    g: Array, input: Array, weight: Array | None, moments: Array
) -> tuple[Array, Array, Array] | None:
    """Return the gradients of input, weight and bias, the latter two in float32; or None.

    Args:
        g, input: (n, c, h, w).
        moments: (c, 3): mean, variance and √(variance + ε) of each channel, in float32.
    """
    if not is_supported(input, weight) or g.dtype != input.dtype:
        return None
    channels = (1, input.shape[1], 1, 1)
    arrays = {
        "input": as_rows(input), "g": as_rows(g), "weight": by_channel(weight, input, 1.0),
        "mean": as_rows(moments[:, 0]).reshape(channels),
        "inverse": (1 / moments[:, 2]).reshape(channels),
    }  # fmt: skip
    shape = tuple(input.shape)
    outputs: dict[str, Any] = dict.fromkeys(("dweight", "dbias"), (channels, FLOAT))
    outputs["dx"] = (shape, input.dtype)
    made = run_graph(build_batch_norm_backward, arrays, (shape,), outputs)
    if made is None:
        return None
    return made["dx"], made["dweight"].reshape(-1), made["dbias"].reshape(-1)
