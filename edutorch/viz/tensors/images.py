"""Plots of tensors: batches of images, filters of a convolution, attention weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...autograd import no_grad
from ...core.tensor import Tensor
from ...nn import Module
from ..render.plots import (
    DIVERGING,
    RISING,
    NotAPictureError,
    NotAPictureTypeError,
    Plot,
    check_tensor,
    grid_shape,
    new_figure,
    to_host,
)  # fmt: skip

MOST_PICTURES = MOST_TOKENS = 64
COLOURS = (1, 3, 4)
NAN_COLOUR = (1.0, 0.0, 1.0)
LAYOUTS = {"HW": 2, "CHW": 3, "HWC": 3, "NHW": 3, "NCHW": 4, "NHWC": 4}


def image(
    tensor: Tensor,
    *,
    layout: str | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    columns: int | None = None,
    titles: Sequence[str] | None = None,
) -> Plot:
    """Show a tensor as an image, or a batch as a grid of images.

    Values from 0 to 1, and integers from 0 to 255, are shown unchanged. All others are rescaled
    so that the smallest is black and the largest white, as the line below states. NaN and
    infinities are magenta, and counted.

    Args:
        tensor: one image or a batch, as CHW, HWC, HW, NCHW, NHWC or NHW.
        layout: which of these; by default inferred from the shape (1, 3 or 4 channels).
        mean, std: undo a normalization: x · std + mean, per channel.
        columns: the number of columns of the grid, which is about square by default.
        titles: a line of text above each image.

    Shape:
        (h, w), (c, h, w), (h, w, c), (n, c, h, w), (n, h, w, c) or (n, h, w).

    Raises: NotAPictureError: the sizes are not those of images.

    >>> edutorch.viz.image(zeros(3, 8, 8))
    <1 image of 8×8 pixels in colour, values from 0 to 0>
    """
    tensor = check_tensor("viz.image", tensor)
    layout_name = resolve_layout(tensor, layout)
    pictures = as_nhwc(to_host(tensor, axes=0), layout_name)
    if not pictures.size:
        raise NotAPictureError(
            "viz.image", "there is nothing in it", {"tensor": tuple(tensor.shape)}
        )
    if mean is not None or std is not None:
        pictures = denormalize(pictures, mean, std)
    low, high, note = display_range(pictures, str(tensor.dtype))
    bad = int((~np.isfinite(pictures)).any(axis=-1).sum())
    total, height, width, channels = pictures.shape
    shown = pictures[:MOST_PICTURES]
    figure = grid_figure(shown, low, high, columns, titles)
    summary = f"{total} image{'s' * (total != 1)} of {height}×{width} pixels"
    colour = "in colour" if channels > 2 else "in grey"
    words = [f"{summary} {colour}", note]
    words += [f"✗ {bad:,} pixels are NaN or Inf (magenta)"] * bool(bad)
    words += [f"the first {MOST_PICTURES} are shown"] * (total > MOST_PICTURES)
    figure.text(0.5, 0.01, ", ".join(words[1:]), ha="center", va="bottom", fontsize=8,
                color="#59626c")  # fmt: skip
    bottom = 0.3 / figure.get_figheight()
    figure.tight_layout(rect=(0, bottom, 1, 1), pad=0.3, h_pad=0.6, w_pad=0.6)
    return Plot(figure, ", ".join(words))


def grid_figure(
    pictures: np.ndarray, low: float, high: float, columns: int | None, titles: Sequence[str] | None
) -> Any:
    """Return a figure with images (n h w c) in a grid."""
    height, width = pictures.shape[1:3]
    rows, across = grid_shape(len(pictures), columns)
    size = min(3.2, 9 / across)
    tall = size * rows * height / width + 0.35 + (0.1 + 0.2 * bool(titles)) * rows
    figure = new_figure("viz.image", figsize=(max(2.4, size * across), tall))
    for index, picture in enumerate(pictures):
        axes = figure.add_subplot(rows, across, index + 1)
        axes.imshow(to_rgb(picture, low, high), interpolation="nearest")
        axes.set_axis_off()
        if titles is not None and index < len(titles):
            axes.set_title(str(titles[index]), fontsize=9, parse_math=False)
    return figure


def resolve_layout(tensor: Tensor, layout: str | None) -> str:
    """Return the layout of a tensor, given or inferred from its shape.

    Raises: NotAPictureError: the shape does not fit the layout, or any layout.
    """
    shape = tuple(tensor.shape)
    if layout is not None:
        if layout not in LAYOUTS:
            raise NotAPictureError("viz.image", f"unknown layout {layout!r}",
                                   hint=f"use one of {', '.join(LAYOUTS)}")  # fmt: skip
        channels = shape[layout.index("C")] if "C" in layout and len(shape) > 2 else 1
        if LAYOUTS[layout] != len(shape) or channels not in COLOURS:
            raise NotAPictureError(
                "viz.image", f"a tensor of this shape is no {layout}", {"tensor": shape},
                "an image has 1, 3 or 4 channels; viz.image(x[0]) shows the channels one by one",
            )  # fmt: skip
        return layout
    if len(shape) == 2:
        return "HW"
    if len(shape) == 3:
        return "CHW" if shape[0] in COLOURS else "HWC" if shape[2] in COLOURS else "NHW"
    if len(shape) == 4 and (shape[1] in COLOURS or shape[3] in COLOURS):
        return "NCHW" if shape[1] in COLOURS else "NHWC"
    hint = "an image has 2 axes (h w), 3 (c h w) or 4 (n c h w)"
    if len(shape) == 4:
        hint = f"{shape[1]} channels are no colours: viz.image(x[0]) shows them one by one"
    elif len(shape) == 5:
        hint = "take one of the first axis: viz.image(x[0])"
    elif len(shape) == 1 and (side := int(shape[0] ** 0.5)) ** 2 == shape[0] and side > 1:
        hint = f"did you mean x.reshape({side}, {side})?"
    raise NotAPictureError(
        "viz.image", "these are not the sizes of images", {"tensor": shape}, hint
    )


def as_nhwc(array: np.ndarray, layout: str) -> np.ndarray:
    """Transpose images to n h w c, and subsample very large ones."""
    axis_of = {
        "HW": (None, 0, 1, None), "CHW": (None, 1, 2, 0), "HWC": (None, 0, 1, 2),
        "NHW": (0, 1, 2, None), "NCHW": (0, 2, 3, 1), "NHWC": (0, 1, 2, 3),
    }[layout]  # fmt: skip
    present = [axis for axis in axis_of if axis is not None]
    array = array.transpose(present)
    for position, axis in enumerate(axis_of):
        if axis is None:
            array = np.expand_dims(array, position)
    steps = [-(-size // 512) for size in array.shape[1:3]]
    return array[:, :: steps[0], :: steps[1]]


def denormalize(pictures: np.ndarray, mean: Any, std: Any) -> np.ndarray:
    """Undo a normalization per channel."""
    channels = pictures.shape[-1]
    factors = []
    for name, setting, default in (("mean", mean, 0.0), ("std", std, 1.0)):
        values = np.atleast_1d(np.asarray(default if setting is None else setting, float))
        if len(values) not in (1, channels):
            raise NotAPictureError(
                "viz.image", f"`{name}` has {len(values)} numbers for {channels} channels",
                hint="give one number, or one per channel",
            )  # fmt: skip
        factors.append(values)
    return pictures * factors[1] + factors[0]


def display_range(pictures: np.ndarray, dtype: str) -> tuple[float, float, str]:
    """Return the values shown as black and as white, and a note about them."""
    good = pictures[np.isfinite(pictures)]
    if not good.size:
        return 0.0, 1.0, "no finite numbers"
    low, high = float(good.min()), float(good.max())
    text = f"values from {low:.4g} to {high:.4g}"
    if "int" in dtype and low >= 0 and high <= 255:
        return 0.0, 255.0, text
    if "bool" in dtype or (low >= 0 and high <= 1):
        return 0.0, 1.0, text
    return low, high if high > low else low + 1, f"{text}, stretched to black … white"


def to_rgb(picture: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return one image (h w c) as RGB from 0 to 1, with non-finite pixels in magenta."""
    bad = ~np.isfinite(picture).all(axis=-1)
    scaled = (np.where(np.isfinite(picture), picture, low) - low) / (high - low)
    scaled = np.clip(scaled, 0, 1)
    if scaled.shape[-1] == 1:
        scaled = np.repeat(scaled, 3, axis=-1)
    scaled[bad, :3] = NAN_COLOUR
    if scaled.shape[-1] == 4:
        scaled[bad, 3] = 1
    return scaled


# Filters --------------------------------------------------------------------------------------


def filters(conv: Module, *, most: int = MOST_PICTURES, columns: int | None = None) -> Plot:
    """Show the filters of a convolution: in colour if they have three channels, else as heat maps.

    In a heat map, orange is positive, purple negative and white 0. Each channel of a filter is a
    map of its own.

    Args:
        conv: a Conv1d, a Conv2d or a weight.
        most: the largest number of maps.
        columns: the number of columns of the grid.

    Shape:
        weight: (out, in / groups, h, w), or (out, in / groups, w).

    Raises: NotAPictureError: it has no such weight.

    >>> edutorch.viz.filters(nn.Conv2d(1, 6, 5))
    <6 filters of 5×5 over 1 channel>
    """
    weight = conv if isinstance(conv, Tensor) else getattr(conv, "weight", None)
    if not isinstance(weight, Tensor):
        raise NotAPictureTypeError(
            "viz.filters", f"expected a convolution, got {type(conv).__name__}",
            hint="viz.filters(model[0]): the layer itself; print(model) shows where it is",
        )  # fmt: skip
    if weight.ndim not in (3, 4):
        raise NotAPictureError(
            "viz.filters", "these are not the sizes of filters", {"weight": tuple(weight.shape)},
            "the weight of a Conv2d has 4 axes (out in h w); viz.image shows any matrix",
        )  # fmt: skip
    array = to_host(weight, axes=0)
    if array.ndim == 3:
        array = array[:, :, None, :]
    count, channels, height, width = array.shape
    alt = f"{count} filters of {height}×{width} over {channels} channel{'s' * (channels != 1)}"
    if channels == 3:
        images = array[:most].transpose(0, 2, 3, 1)
        pictures = [to_rgb(rescale_filter(image), 0, 1) for image in images]
        names = [str(index) for index in range(len(pictures))]
        return heat_grid("viz.filters", pictures, names, columns, alt)
    maps = array.reshape(-1, height, width)[:most]
    names = [f"{index // channels}" if channels == 1 else f"{index // channels}, {index % channels}"
             for index in range(len(maps))]  # fmt: skip
    if columns is None and 1 < channels <= 16:
        columns = channels  # a filter per row
    if count * channels > most:
        alt += f", the first {most} maps of {count * channels}"
    return heat_grid("viz.filters", list(maps), names, columns, alt)


def rescale_filter(picture: np.ndarray) -> np.ndarray:
    """Rescale one filter to 0 … 1, with 0 at 0.5."""
    peak = np.nanmax(np.abs(picture)) or 1.0
    return picture / (2 * peak) + 0.5


def heat_grid(
    function: str, pictures: list[Any], names: list[str], columns: int | None, alt: str
) -> Plot:
    """Return a plot of heat maps in a grid, with one colour scale around 0."""
    rows, across = grid_shape(len(pictures), columns)
    size = min(1.6, 9 / across)
    height, width = pictures[0].shape[:2]
    figure = new_figure(function, figsize=(max(2.5, size * across + 0.8),
                                           max(1.0, (size * height / width + 0.22) * rows)),
                        layout="constrained")  # fmt: skip
    maps = [picture for picture in pictures if picture.ndim == 2]
    peak = max((float(np.nanmax(np.abs(map_))) for map_ in maps), default=1.0) or 1.0
    heat_map, axes_list = None, []
    for index, picture in enumerate(pictures):
        axes = figure.add_subplot(rows, across, index + 1)
        axes_list.append(axes)
        if picture.ndim == 2:
            heat_map = axes.imshow(picture, cmap=DIVERGING, vmin=-peak, vmax=peak, aspect="auto")
        else:
            axes.imshow(picture, interpolation="nearest")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_title(names[index], fontsize=7, pad=2, parse_math=False)
    if heat_map is not None:
        figure.colorbar(heat_map, ax=axes_list, fraction=0.03, pad=0.02).ax.tick_params(labelsize=7)
    return Plot(figure, alt)


# Attention ------------------------------------------------------------------------------------


def attention(
    mha: Module,
    *inputs: Tensor,
    tokens: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    example: int = 0,
    **options: Any,
) -> Plot:
    """Show the attention weights of each head: a row per query, a column per key.

    Args:
        mha: an `nn.MultiheadAttention`, or attention weights.
        inputs: query, key and value; one tensor stands for all three.
        tokens: the texts of the queries, and of the keys unless `keys` is given.
        keys: the texts of the keys.
        example: the index of the sample in the batch.
        options: further arguments of the module: `attn_mask`, `key_padding_mask`, …

    Shape:
        weights: (q, k), (heads, q, k) or (n, heads, q, k).

    Raises: NotAPictureError: there are no attention weights, or the texts do not fit.

    >>> edutorch.viz.attention(softmax(zeros(2, 3, 3), -1), tokens=["a", "b", "c"])
    <attention of 2 heads, 3 queries and 3 keys; head 0: a looks at a, b at a, c at a; head 1: a looks at a, b at a, c at a>
    """  # noqa: E501
    weights = mha if isinstance(mha, Tensor) else weights_of(mha, inputs, options)
    if weights.ndim == 4:
        if not -weights.shape[0] <= example < weights.shape[0]:
            raise NotAPictureError("viz.attention", f"there is no example {example}",
                                   {"weights": tuple(weights.shape)})  # fmt: skip
        weights = weights.detach()[example]
    if weights.ndim not in (2, 3):
        raise NotAPictureError(
            "viz.attention", "these are not the sizes of attention weights",
            {"weights": tuple(weights.shape)}, "they are (heads, queries, keys)",
        )  # fmt: skip
    array = to_host(weights)
    array = array[None] if array.ndim == 2 else array
    rows = axis_labels("tokens", tokens, array.shape[1])
    across = axis_labels("keys", keys if keys is not None else tokens
                    if array.shape[1] == array.shape[2] else None, array.shape[2])  # fmt: skip
    return Plot(attention_figure(array, rows, across), attention_alt(array, rows, across))


def weights_of(mha: Module, inputs: Sequence[Tensor], options: dict[str, Any]) -> Tensor:
    """Return the weights of an attention module per head, without dropout and without a graph."""
    if not hasattr(mha, "num_heads") or not callable(mha):
        raise NotAPictureTypeError(
            "viz.attention", f"expected nn.MultiheadAttention, got {type(mha).__name__}",
            hint="give the weights themselves if the attention is your own: viz.attention(weights)",
        )  # fmt: skip
    if len(inputs) not in (1, 2, 3):
        raise NotAPictureTypeError(
            "viz.attention", f"expected query, key and value, got {len(inputs)} tensors",
            hint="viz.attention(mha, x) for self-attention",
        )  # fmt: skip
    query, key, value = (*inputs, *[inputs[-1]] * (3 - len(inputs)))
    flags = [(module, module.training) for module in mha.modules()]
    try:
        mha.eval()
        with no_grad():
            options = {**options, "need_weights": True, "average_attn_weights": False}
            output: Any = mha(query, key, value, **options)
            return output[1]
    finally:
        for module, flag in flags:
            module.training = flag


def axis_labels(name: str, texts: Sequence[str] | None, count: int) -> list[str]:
    """Return the labels of an axis: the texts, or else the positions."""
    if texts is None:
        return [str(index) for index in range(count)]
    labels = [str(text) for text in texts]
    if len(labels) != count:
        raise NotAPictureError(
            "viz.attention", f"`{name}` has {len(labels)} texts for {count} positions",
            hint="one text per position: list(sentence), or sentence.split()",
        )  # fmt: skip
    return labels


def attention_figure(array: np.ndarray, rows: list[str], across: list[str]) -> Any:
    """Return a figure with a heat map per head."""
    heads = len(array)
    lines, columns = grid_shape(heads, min(heads, 4))
    size = min(4.0, max(2.2, 10 / columns))
    figure = new_figure("viz.attention", figsize=(size * columns + 0.6, size * lines + 0.3),
                        layout="constrained")  # fmt: skip
    heat_map, axes_list = None, []
    for head, weights in enumerate(array):
        axes = figure.add_subplot(lines, columns, head + 1)
        axes_list.append(axes)
        heat_map = axes.imshow(weights, cmap=RISING, vmin=0, vmax=1, aspect="auto")
        axes.set_title(f"head {head}", fontsize=9)
        if len(across) <= MOST_TOKENS:
            axes.set_xticks(range(len(across)), across, rotation=90, fontsize=7, parse_math=False)
        if len(rows) <= MOST_TOKENS:
            axes.set_yticks(range(len(rows)), rows, fontsize=7, parse_math=False)
        if head % columns == 0:
            axes.set_ylabel("query", fontsize=8)
        if head >= heads - columns:
            axes.set_xlabel("key: where it looks", fontsize=8)
    figure.colorbar(heat_map, ax=axes_list, fraction=0.03, pad=0.02, label="weight")
    return figure


def attention_alt(array: np.ndarray, rows: list[str], across: list[str]) -> str:
    """Return the alternative text: the key with the largest weight of each query."""
    heads, queries, keys = array.shape
    text = f"attention of {heads} head{'s' * (heads != 1)}, {queries} queries and {keys} keys"
    for head, weights in enumerate(array[:4]):
        best = np.nan_to_num(weights).argmax(axis=1)
        looks = [f"{rows[query]}{' looks' * (query == 0)} at {across[key]}"
                 for query, key in enumerate(best[:8])]  # fmt: skip
        text += f"; head {head}: {', '.join(looks)}"
    return text
