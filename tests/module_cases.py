"""The cases to test every module with: constructor settings and inputs.

`CASES` has them by the module's name; the layers are here, losses and the large modules in the
files beside this one. `EXCLUDED` says which modules have none, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Make = Callable[[Any], Any]


@dataclass(frozen=True)
class Made:
    """An argument that is itself a module of the library's `nn`."""

    make: Make


@dataclass
class Case:
    """One case of a module: constructor settings and inputs.

    Args:
        args, settings: for the constructor. Arrays become tensors.
        x: inputs: arrays, or shapes of random ones; None: it is not called.
        call: further arguments of the call, by name.
        grads: the indices of the inputs that get gradients; None: all floating ones.
        random: why outputs while training are random, and compared as distributions.
        only_values: why derivatives are not compared.
    """

    name: str
    args: tuple[Any, ...]
    settings: dict[str, Any]
    x: list[Any] | None
    call: dict[str, Any] = field(default_factory=dict)
    grads: Sequence[int] | None = None
    random: str = ""
    only_values: str = ""

    def __str__(self) -> str:
        settings = [word(argument) for argument in self.args]
        settings += [f"{key}={word(value)}" for key, value in self.settings.items()]
        shapes = [
            "x".join(map(str, value if isinstance(value, tuple) else value.shape)) or "one"
            for value in self.x or ()
        ]
        called = [*shapes, *(f"{key}={word(value)}" for key, value in self.call.items())]
        return f"{self.name}({', '.join(settings)}) on {' '.join(called) or 'nothing'}"


def word(value: object) -> str:
    """Return a short text of a setting, without addresses and long arrays."""
    if isinstance(value, np.ndarray):
        return f"array{value.shape}"
    if isinstance(value, list):
        return f"[{', '.join(map(word, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {word(item)}' for key, item in value.items())}}}"
    return getattr(value, "__name__", type(value).__name__ if isinstance(value, Made) else "") or (
        str(value)
    )


CASES: dict[str, list[Case]] = {}


def case(name: str, *args: Any, x: Any, **settings: Any) -> None:
    """Add a case. `x` is a shape, or a list of shapes and arrays, or None."""
    options = {key: settings.pop(key) for key in list(settings) if key in OPTIONS}
    inputs = [x] if isinstance(x, tuple) else x
    CASES.setdefault(name, []).append(Case(name, args, settings, inputs, **options))


OPTIONS = ("call", "grads", "random", "only_values")

EXCLUDED = {
    "Module": "the base of all: has no forward; tests/nn/test_module.py",
    "RNNBase": "the base of the recurrent layers; as RNN, LSTM and GRU it is tried",
    "RNNCellBase": "the base of the recurrent cells; as RNNCell, LSTMCell and GRUCell it is tried",
    "Container": "warns that it is out of use and does nothing; tests/nn/test_more_modules.py",
}

ROWS, LINE, IMAGE, VOLUME = (3, 4), (2, 4, 9), (2, 4, 7, 6), (2, 4, 5, 6, 4)
SPACE = {1: LINE, 2: IMAGE, 3: VOLUME}
RANDOM = "draws other random values than PyTorch"

# Linear, and without parameters ------------------------------------------------------------

case("Linear", 3, 5, x=(4, 3))
case("Linear", 3, 5, bias=False, x=(2, 2, 3))
case("Linear", 3, 5, x=(3,))
case("Bilinear", 3, 4, 2, x=[(2, 5, 3), (2, 5, 4)])
case("Bilinear", 3, 4, 2, bias=False, x=[(5, 3), (5, 4)])
case("Identity", x=ROWS)
case("Identity", 3, unused=True, x=ROWS)
case("Flatten", x=IMAGE)
case("Flatten", 0, 1, x=IMAGE)
case("Unflatten", 1, (2, 2), x=IMAGE)
case("Unflatten", -1, (3, -1), x=IMAGE)
case("ChannelShuffle", 2, x=IMAGE)
case("ChannelShuffle", 4, x=(1, 8, 3, 2))
case("PixelShuffle", 2, x=IMAGE)
case("PixelShuffle", 3, x=(9, 2, 2))
case("PixelUnshuffle", 2, x=(2, 3, 4, 6))
case("PixelUnshuffle", 3, x=(1, 6, 3))
case("CosineSimilarity", x=[(4, 3), (4, 3)])
case("CosineSimilarity", dim=0, eps=1e-6, x=[(4, 3), (4, 3)])
case("PairwiseDistance", x=[(4, 3), (4, 3)])
case("PairwiseDistance", p=1.0, keepdim=True, eps=1e-3, x=[(4, 3), (4, 3)])

# Convolutions ------------------------------------------------------------------------------

for _rank, _shape in SPACE.items():
    _conv, _back = f"Conv{_rank}d", f"ConvTranspose{_rank}d"
    case(_conv, 4, 6, 3, x=_shape)
    case(_conv, 4, 6, 2, stride=2, padding=1, bias=False, x=_shape)
    case(_conv, 4, 6, 2, padding="same", dilation=2, groups=2, x=_shape[1:])
    case(_conv, 4, 4, (3, 2, 1)[:_rank], padding="valid", groups=4, x=_shape)
    for _mode in ("reflect", "replicate", "circular"):
        case(_conv, 4, 2, 3, padding=(1, 2, 1)[:_rank], padding_mode=_mode, x=_shape)
    case(_back, 4, 6, 3, x=_shape)
    case(_back, 4, 6, 3, stride=2, padding=1, output_padding=1, bias=False, x=_shape)
    case(_back, 4, 6, 2, groups=2, dilation=2, x=_shape[1:])

for _ in (
    ((2, 3), {"padding": 1, "stride": 2}), (2, {"dilation": (2, 1)}),
    ((3, 2), {"stride": (1, 2), "dilation": (1, 2), "padding": (2, 0)}),
):  # fmt: skip
    case("Unfold", _[0], **_[1], x=IMAGE)
case("Fold", (4, 5), 2, x=(2, 8, 12))
case("Fold", (4, 5), 2, padding=1, stride=2, x=(8, 9))

# Pooling -----------------------------------------------------------------------------------

for _rank, _shape in SPACE.items():
    _max, _avg, _line = f"MaxPool{_rank}d", f"AvgPool{_rank}d", _shape[1:]
    case(_max, 2, x=_shape)
    case(_max, 3, stride=2, padding=1, x=_shape)
    case(_max, 2, stride=1, dilation=2, x=_line)
    case(_max, 3, 2, ceil_mode=True, return_indices=True, x=_shape)
    case(_avg, 2, x=_shape)
    case(_avg, 3, stride=2, padding=1, count_include_pad=False, x=_shape)
    case(_avg, (2, 3, 1)[:_rank], ceil_mode=True, x=_line)
    if _rank > 1:
        case(_avg, 2, divisor_override=5, x=_shape)
    _sizes = (3, None, 2)[:_rank] if _rank > 1 else 3
    for _kind in ("Avg", "Max"):
        case(f"Adaptive{_kind}Pool{_rank}d", 1, x=_shape)
        case(f"Adaptive{_kind}Pool{_rank}d", _sizes, x=_line)
    case(f"AdaptiveMaxPool{_rank}d", 2, return_indices=True, x=_shape)
    _plus = np.random.default_rng(_rank).uniform(0.5, 1.5, _shape)
    case(f"LPPool{_rank}d", 2, 3, stride=2, x=[_plus])
    case(f"LPPool{_rank}d", 4, 2, ceil_mode=True, x=[_plus[0]])
    _window = (2,) * _rank
    _places = np.tile(2 * np.arange(2**_rank).reshape(_window), (1, 2, *(1,) * _rank))
    case(f"MaxUnpool{_rank}d", 2, x=[(1, 2, *_window), _places])
    case(f"MaxUnpool{_rank}d", 2, 2, x=[(2, *_window), _places[0]],
         call={"output_size": (4, 5, 4)[:_rank]})  # fmt: skip
for _rank in (2, 3):
    _at = np.random.default_rng(0).uniform(size=(2, 4, _rank))
    _name = f"FractionalMaxPool{_rank}d"
    case(_name, 2, output_size=(3, 2, 2)[:_rank], _random_samples=_at, x=SPACE[_rank])
    case(_name, 2, output_ratio=0.5, return_indices=True, _random_samples=_at, x=SPACE[_rank])

# Borders and other sizes -------------------------------------------------------------------

for _kind in ("Constant", "Zero", "Reflection", "Replication", "Circular"):
    for _rank, _shape in SPACE.items():
        for _width in (1, (2, 1, 0, 2, 1, 1)[: 2 * _rank]):
            _more = (1.5,) if _kind == "Constant" else ()
            case(f"{_kind}Pad{_rank}d", _width, *_more, x=_shape)

case("Upsample", scale_factor=2, x=IMAGE)
case("Upsample", size=(3, 11), x=IMAGE)
case("Upsample", size=7, mode="nearest-exact", x=LINE)
case("Upsample", scale_factor=1.7, mode="linear", x=LINE)
case("Upsample", scale_factor=(2, 0.5), mode="bilinear", x=IMAGE)
case("Upsample", size=(9, 1), mode="bilinear", align_corners=True, x=IMAGE)
case("Upsample", scale_factor=1.3, mode="bicubic", recompute_scale_factor=True, x=IMAGE)
case("Upsample", size=3, mode="trilinear", align_corners=False, x=VOLUME)
case("UpsamplingNearest2d", scale_factor=2, x=IMAGE)
case("UpsamplingNearest2d", size=5, x=IMAGE)
case("UpsamplingBilinear2d", size=(7, 3), x=IMAGE)
case("UpsamplingBilinear2d", scale_factor=1.5, x=IMAGE)

# Norms -------------------------------------------------------------------------------------

for _rank, _shape in SPACE.items():
    _batch, _own = f"BatchNorm{_rank}d", f"InstanceNorm{_rank}d"
    case(_batch, 4, x=_shape)
    case(_batch, 4, eps=1e-2, momentum=None, bias=False, x=_shape)
    case(_batch, 4, affine=False, momentum=0.7, x=_shape)
    case(_batch, 4, track_running_stats=False, x=_shape)
    case(_own, 4, x=_shape)
    case(_own, 4, affine=True, track_running_stats=True, x=_shape)
    case(_own, 4, affine=True, bias=False, eps=1e-2, x=_shape[1:])
case("BatchNorm1d", 4, x=(5, 4))
for _shape in (ROWS, IMAGE):
    case("SyncBatchNorm", 4, x=_shape)
    case("SyncBatchNorm", 4, affine=False, momentum=None, x=_shape)
case("LayerNorm", 6, x=IMAGE)
case("LayerNorm", (7, 6), eps=1e-2, bias=False, x=IMAGE)
case("LayerNorm", 6, elementwise_affine=False, x=(6,))
case("RMSNorm", 6, x=IMAGE)
case("RMSNorm", (7, 6), eps=1e-2, elementwise_affine=False, x=IMAGE)
case("GroupNorm", 2, 4, x=IMAGE)
case("GroupNorm", 4, 4, eps=1e-2, bias=False, x=LINE)
case("GroupNorm", 1, 4, affine=False, x=ROWS)
case("LocalResponseNorm", 3, alpha=0.1, k=2.0, x=IMAGE)
case("LocalResponseNorm", 2, beta=0.5, x=LINE)
_other_sum = "PyTorch's derivative is that of another sum than its own"
case("CrossMapLRN2d", 3, x=(2, 6, 3, 3), only_values=_other_sum)
case("CrossMapLRN2d", 4, 0.1, 0.5, 2, x=(2, 6, 3, 3), only_values=_other_sum)

# Activations -------------------------------------------------------------------------------

_plain = ("ELU SELU CELU ReLU ReLU6 LeakyReLU SiLU Mish Hardswish Hardsigmoid Hardtanh Threshold"
          " RReLU").split()  # fmt: skip
_first: dict[str, tuple[Any, ...]] = {"Threshold": (0.1, 20.0)}
for _name in _plain:
    _how = {"random": "slopes are random"} if _name == "RReLU" else {}
    case(_name, *_first.get(_name, ()), x=ROWS, **_how)
    case(_name, *_first.get(_name, ()), inplace=True, x=IMAGE, **_how)
for _name in "Sigmoid Tanh Softsign LogSigmoid Tanhshrink Hardshrink Softshrink GELU".split():
    case(_name, x=ROWS)
    case(_name, x=(3,))
case("ELU", alpha=1.5, x=ROWS)
case("CELU", 2.0, x=ROWS)
case("LeakyReLU", 0.2, x=ROWS)
case("RReLU", 0.2, 0.2, x=ROWS)
case("Hardtanh", -0.5, 0.7, x=ROWS)
case("Hardshrink", 0.2, x=ROWS)
case("Softshrink", 1, x=ROWS)
case("GELU", approximate="tanh", x=ROWS)
case("Softplus", x=ROWS)
case("Softplus", beta=2.0, threshold=1.0, x=ROWS)
for _name in ("Softmax", "Softmin", "LogSoftmax"):
    case(_name, 1, x=ROWS)
    case(_name, dim=0, x=IMAGE)
case("Softmax2d", x=IMAGE)
case("Softmax2d", x=IMAGE[1:])
case("PReLU", x=ROWS)
case("PReLU", 4, init=0.1, x=IMAGE)
case("GLU", x=ROWS)
case("GLU", dim=1, x=IMAGE)

for _name, _shape in (
    ("Dropout", ROWS), ("Dropout1d", LINE), ("Dropout2d", IMAGE), ("Dropout3d", VOLUME),
    ("AlphaDropout", ROWS), ("FeatureAlphaDropout", IMAGE),
):  # fmt: skip
    case(_name, 0.3, x=_shape, random=RANDOM)
    case(_name, 0.0, x=_shape)
    case(_name, 0.0, inplace=True, x=_shape)
    case(_name, 1.0, x=_shape)


def every_case() -> Iterator[Case]:
    """Yield all cases of all modules."""
    from tests import (  # noqa: F401  (they add theirs)
        module_cases_layers,
        module_cases_losses,
        module_cases_networks,
    )

    for cases in CASES.values():
        yield from cases
