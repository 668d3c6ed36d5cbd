"""Tensors as images: batches of pictures, filters of a convolution, where attention looks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...autograd import no_grad
from ...core.tensor import Tensor
from ..render.plots import (
    DIVERGING,
    RISING,
    NotAPictureError,
    NotAPictureTypeError,
    Plot,
    grid_of,
    need_tensor,
    new_figure,
    on_host,
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
    """Show a tensor as an image, or several as a grid.

    Numbers from 0 to 1, and integers from 0 to 255, are shown as they are. All others are
    stretched so that the smallest is black and the largest white; the line below says so. NaN
    and infinities are magenta, and counted.

    Args:
        tensor: one image or many, as CHW, HWC, HW, NCHW, NHWC or NHW.
        layout: which of these; by default it is told from the sizes (1, 3 or 4 channels).
        mean, std: undo a normalisation: x · std + mean, per channel.
        columns: of the grid; by default it is about square.
        titles: a line of text above each image.

    Shape:
        (h, w), (c, h, w), (h, w, c), (n, c, h, w), (n, h, w, c) or (n, h, w).

    Raises: NotAPictureError: the sizes are not those of images.

    >>> edutorch.viz.image(zeros(3, 8, 8))
    <1 image of 8×8 pixels in colour, values from 0 to 0>
    """
    tensor = need_tensor("viz.image", tensor)
    kind = checked_layout(tensor, layout)
    pictures = as_nhwc(on_host(tensor, axes=0), kind)
    if not pictures.size:
        raise NotAPictureError(
            "viz.image", "there is nothing in it", {"tensor": tuple(tensor.shape)}
        )
    if mean is not None or std is not None:
        pictures = undone(pictures, mean, std)
    low, high, note = shown_range(pictures, str(tensor.dtype))
    bad = int((~np.isfinite(pictures)).any(axis=-1).sum())
    total, height, width, channels = pictures.shape
    kept = pictures[:MOST_PICTURES]
    figure = grid_figure(kept, low, high, columns, titles)
    what = f"{total} image{'s' * (total != 1)} of {height}×{width} pixels"
    colour = "in colour" if channels > 2 else "in grey"
    words = [f"{what} {colour}", note]
    words += [f"✗ {bad:,} pixels are NaN or Inf (magenta)"] * bool(bad)
    words += [f"the first {MOST_PICTURES} are shown"] * (total > MOST_PICTURES)
    figure.text(0.5, 0.01, ", ".join(words[1:]), ha="center", va="bottom", fontsize=8,
                color="#59626c")  # fmt: skip
    bottom = 0.3 / figure.get_figheight()
    figure.tight_layout(rect=(0, bottom, 1, 1), pad=0.3, h_pad=0.6, w_pad=0.6)
    return Plot(figure, ", ".join(words))


def grid_figure(
    kept: np.ndarray, low: float, high: float, columns: int | None, titles: Sequence[str] | None
) -> Any:
    """Draw images (n h w c) side by side."""
    height, width = kept.shape[1:3]
    rows, across = grid_of(len(kept), columns)
    size = min(3.2, 9 / across)
    tall = size * rows * height / width + 0.35 + (0.1 + 0.2 * bool(titles)) * rows
    figure = new_figure("viz.image", figsize=(max(2.4, size * across), tall))
    for number, each in enumerate(kept):
        axes = figure.add_subplot(rows, across, number + 1)
        axes.imshow(coloured(each, low, high), interpolation="nearest")
        axes.set_axis_off()
        if titles is not None and number < len(titles):
            axes.set_title(str(titles[number]), fontsize=9, parse_math=False)
    return figure


def checked_layout(tensor: Tensor, layout: str | None) -> str:
    """Return the order of a tensor's axes.

    Raises: NotAPictureError: it cannot be one of those, or not the one that was named.
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


def as_nhwc(array: np.ndarray, kind: str) -> np.ndarray:
    """Bring images into one order: n h w c; very large ones are thinned."""
    where = {"HW": (None, 0, 1, None), "CHW": (None, 1, 2, 0), "HWC": (None, 0, 1, 2),
             "NHW": (0, 1, 2, None), "NCHW": (0, 2, 3, 1), "NHWC": (0, 1, 2, 3)}[kind]  # fmt: skip
    present = [axis for axis in where if axis is not None]
    array = array.transpose(present)
    for at, axis in enumerate(where):
        if axis is None:
            array = np.expand_dims(array, at)
    steps = [-(-size // 512) for size in array.shape[1:3]]
    return array[:, :: steps[0], :: steps[1]]


def undone(pictures: np.ndarray, mean: Any, std: Any) -> np.ndarray:
    """Undo a normalisation by channel."""
    channels = pictures.shape[-1]
    factors = []
    for name, given, default in (("mean", mean, 0.0), ("std", std, 1.0)):
        values = np.atleast_1d(np.asarray(default if given is None else given, float))
        if len(values) not in (1, channels):
            raise NotAPictureError(
                "viz.image", f"`{name}` has {len(values)} numbers for {channels} channels",
                hint="give one number, or one per channel",
            )  # fmt: skip
        factors.append(values)
    return pictures * factors[1] + factors[0]


def shown_range(pictures: np.ndarray, dtype: str) -> tuple[float, float, str]:
    """Return what is black, what is white, and a note about it."""
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


def coloured(picture: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return one image (h w c) as red, green and blue from 0 to 1."""
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


def filters(conv: Any, *, most: int = MOST_PICTURES, columns: int | None = None) -> Plot:
    """Show the filters of a convolution: in colour where they look at colours, else as maps.

    In a map, orange weighs positively and purple negatively; white is 0. Of a filter over many
    channels each channel is a map of its own.

    Args:
        conv: a Conv1d, Conv2d or its weight.
        most: so many maps are drawn at most.
        columns: of the grid.

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
    array = on_host(weight, axes=0)
    if array.ndim == 3:
        array = array[:, :, None, :]
    made, channels, height, width = array.shape
    alt = f"{made} filters of {height}×{width} over {channels} channel{'s' * (channels != 1)}"
    if channels == 3:
        pictures = [coloured(stretched(each.transpose(1, 2, 0)), 0, 1) for each in array[:most]]
        names = [str(at) for at in range(len(pictures))]
        return heat_grid("viz.filters", pictures, names, columns, alt)
    maps = array.reshape(-1, height, width)[:most]
    names = [f"{at // channels}" if channels == 1 else f"{at // channels}, {at % channels}"
             for at in range(len(maps))]  # fmt: skip
    if columns is None and 1 < channels <= 16:
        columns = channels  # a filter per row
    if made * channels > most:
        alt += f", the first {most} maps of {made * channels}"
    return heat_grid("viz.filters", list(maps), names, columns, alt)


def stretched(picture: np.ndarray) -> np.ndarray:
    """Bring one filter to 0 … 1, with 0 in the middle."""
    peak = np.nanmax(np.abs(picture)) or 1.0
    return picture / (2 * peak) + 0.5


def heat_grid(
    function: str, pictures: list[Any], names: list[str], columns: int | None, alt: str
) -> Plot:
    """Draw maps side by side, on one scale around 0."""
    rows, across = grid_of(len(pictures), columns)
    size = min(1.6, 9 / across)
    height, width = pictures[0].shape[:2]
    figure = new_figure(function, figsize=(max(2.5, size * across + 0.8),
                                           max(1.0, (size * height / width + 0.22) * rows)),
                        layout="constrained")  # fmt: skip
    maps = [picture for picture in pictures if picture.ndim == 2]
    peak = max((float(np.nanmax(np.abs(map_))) for map_ in maps), default=1.0) or 1.0
    drawn, places = None, []
    for number, picture in enumerate(pictures):
        axes = figure.add_subplot(rows, across, number + 1)
        places.append(axes)
        if picture.ndim == 2:
            drawn = axes.imshow(picture, cmap=DIVERGING, vmin=-peak, vmax=peak, aspect="auto")
        else:
            axes.imshow(picture, interpolation="nearest")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_title(names[number], fontsize=7, pad=2, parse_math=False)
    if drawn is not None:
        figure.colorbar(drawn, ax=places, fraction=0.03, pad=0.02).ax.tick_params(labelsize=7)
    return Plot(figure, alt)


# Attention ------------------------------------------------------------------------------------


def attention(
    mha: Any,
    *inputs: Tensor,
    tokens: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    example: int = 0,
    **options: Any,
) -> Plot:
    """Show where each head of attention looks: a row per query, a column per key.

    Args:
        mha: an `nn.MultiheadAttention`, or weights that were computed elsewhere.
        inputs: query, key and value; one tensor stands for all three.
        tokens: the texts of the queries, and of the keys unless `keys` has them.
        keys: the texts of the keys.
        example: which of a batch is shown.
        options: what else the module takes: `attn_mask`, `key_padding_mask`, …

    Shape:
        weights: (q, k), (heads, q, k) or (n, heads, q, k).

    Raises: NotAPictureError: no attention weights come of it, or the texts do not fit.

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
    array = on_host(weights)
    array = array[None] if array.ndim == 2 else array
    rows = labels("tokens", tokens, array.shape[1])
    across = labels("keys", keys if keys is not None else tokens
                    if array.shape[1] == array.shape[2] else None, array.shape[2])  # fmt: skip
    return Plot(attention_figure(array, rows, across), attention_alt(array, rows, across))


def weights_of(mha: Any, inputs: Sequence[Tensor], options: dict[str, Any]) -> Tensor:
    """Call a module of attention for its weights by head, without dropout and without a graph."""
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
            found: Any = mha(query, key, value, **options)
            return found[1]
    finally:
        for module, flag in flags:
            module.training = flag


def labels(name: str, texts: Sequence[str] | None, count: int) -> list[str]:
    """Return the texts of an axis; numbers where there are none."""
    if texts is None:
        return [str(at) for at in range(count)]
    found = [str(text) for text in texts]
    if len(found) != count:
        raise NotAPictureError(
            "viz.attention", f"`{name}` has {len(found)} texts for {count} positions",
            hint="one text per position: list(sentence), or sentence.split()",
        )  # fmt: skip
    return found


def attention_figure(array: np.ndarray, rows: list[str], across: list[str]) -> Any:
    """Draw a heat map per head."""
    heads = len(array)
    lines, columns = grid_of(heads, min(heads, 4))
    size = min(4.0, max(2.2, 10 / columns))
    figure = new_figure("viz.attention", figsize=(size * columns + 0.6, size * lines + 0.3),
                        layout="constrained")  # fmt: skip
    drawn, places = None, []
    for head, weights in enumerate(array):
        axes = figure.add_subplot(lines, columns, head + 1)
        places.append(axes)
        drawn = axes.imshow(weights, cmap=RISING, vmin=0, vmax=1, aspect="auto")
        axes.set_title(f"head {head}", fontsize=9)
        if len(across) <= MOST_TOKENS:
            axes.set_xticks(range(len(across)), across, rotation=90, fontsize=7, parse_math=False)
        if len(rows) <= MOST_TOKENS:
            axes.set_yticks(range(len(rows)), rows, fontsize=7, parse_math=False)
        if head % columns == 0:
            axes.set_ylabel("query", fontsize=8)
        if head >= heads - columns:
            axes.set_xlabel("key: where it looks", fontsize=8)
    figure.colorbar(drawn, ax=places, fraction=0.03, pad=0.02, label="weight")
    return figure


def attention_alt(array: np.ndarray, rows: list[str], across: list[str]) -> str:
    """Say in words at what each query looks most."""
    heads, queries, keys = array.shape
    text = f"attention of {heads} head{'s' * (heads != 1)}, {queries} queries and {keys} keys"
    for head, weights in enumerate(array[:4]):
        best = np.nan_to_num(weights).argmax(axis=1)
        looks = [f"{rows[at]}{' looks' * (at == 0)} at {across[key]}"
                 for at, key in enumerate(best[:8])]  # fmt: skip
        text += f"; head {head}: {', '.join(looks)}"
    return text
