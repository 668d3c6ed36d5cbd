"""Checkpoints in HuggingFace's folders: config.json beside model.safetensors.

Nothing is fetched: a folder is a path on this machine, with the files as they are published.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from ... import nn
from ...core.tensor import Tensor
from ...errors import InvalidValueError, warn
from ...nn import functional as F
from ...ops import tanh
from ...serialization import CheckpointError, load
from ...utils.atomic_files import write_atomically
from .configs import PretrainedConfig, find_file

WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": partial(F.gelu, approximate="tanh"),
    "gelu_pytorch_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
    "swish": F.silu,
    "tanh": tanh,
}
"""Activation functions by the names in config.json. "gelu_new" is GPT-2's, by tanh."""


def activation_function(name: str, op: str) -> Callable[[Tensor], Tensor]:
    """Return an activation function by its name in config.json."""
    if name not in ACTIVATIONS:
        raise InvalidValueError(
            op, f"there is no activation function {name!r}", hint=f"one of {', '.join(ACTIVATIONS)}"
        )
    return ACTIVATIONS[name]


class PretrainedModel(nn.Module):
    """A model with a config, that is loaded from a folder and saved to one."""

    config_class: ClassVar[type[PretrainedConfig]]
    base_prefix: ClassVar[str] = ""
    """What the keys of the model without its head begin with, in a checkpoint with a head."""
    optional_keys: ClassVar[tuple[str, ...]] = ()
    """Parts that a checkpoint may lack: they start from random values then."""
    tied_keys: ClassVar[dict[str, str]] = {}
    """Keys that a checkpoint leaves out, because they are the same tensor as another."""

    def __init__(self, config: PretrainedConfig) -> None:
        super().__init__()
        self.config: Any = config

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Self:
        """Return the model of a local folder, in evaluation mode.

        The folder holds config.json, and model.safetensors or pytorch_model.bin (which are loaded
        without running code), or an index of several such files.

        Raises:
            FileNotFoundError: a file is missing.
            ConfigError: the config is of another architecture.
            CheckpointError: the weights are damaged.
            RuntimeError: the checkpoint has other keys or shapes.
        """
        model = cls(cls.config_class.from_pretrained(folder))
        state = model.adapt_keys(read_weights(folder, f"{cls.__name__}.from_pretrained"))
        model.load_state_dict(state)
        return model.eval()

    def save_pretrained(self, folder: str | Path) -> None:
        """Write config.json and model.safetensors into a folder, as transformers reads them."""
        from safetensors.numpy import save

        self.config.other["architectures"] = [type(self).__name__]
        self.config.save_pretrained(folder)
        arrays = {
            name: tensor.detach().cpu().contiguous().numpy()
            for name, tensor in self.state_dict().items()
            if name not in self.tied_keys
        }
        write_atomically(Path(folder) / WEIGHT_FILES[0], save(arrays, metadata={"format": "pt"}))

    def adapt_keys(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return a checkpoint's tensors under this model's keys.

        A checkpoint of the model without a head lacks the prefix, one with another head has parts
        that are of no use here; masks and positions were saved by old versions. What is left out
        and what is missing is told in a warning.
        """
        own = self.state_dict()
        prefix = self.base_prefix + "."
        has_head = any(name.startswith(prefix) for name in own)
        saved_with_head = any(name.startswith(prefix) for name in state)
        adapted: dict[str, Tensor] = {}
        for name, tensor in state.items():
            name = name.replace("LayerNorm.gamma", "LayerNorm.weight")
            name = name.replace("LayerNorm.beta", "LayerNorm.bias")
            if has_head and not saved_with_head:
                name = prefix + name
            elif not has_head and saved_with_head:
                name = name.removeprefix(prefix) if name.startswith(prefix) else f"head:{name}"
            adapted[name] = tensor
        for name, source in self.tied_keys.items():
            if source in adapted:
                adapted[name] = adapted[source]
        is_base = prefix if has_head else ""
        unused = [name for name in adapted if name not in own and is_unused(name, is_base)]
        absent = [
            name for name in own if name not in adapted and name.startswith(self.optional_keys)
        ]
        for name in unused:
            del adapted[name]
        adapted.update({name: own[name] for name in absent})
        told = [name.removeprefix("head:") for name in unused if not name.endswith(OLD_BUFFERS)]
        warn_of_differences(type(self).__name__, told, absent)
        return adapted

    def check_heads(self, width: int, heads: int) -> None:
        """Raise InvalidValueError for a width that cannot be shared out among the heads."""
        if heads < 1 or width % heads:
            raise InvalidValueError(
                type(self).__name__, f"{width} features cannot be split into {heads} heads"
            )

    def check_length(self, length: int, limit: int, setting: str) -> None:
        """Raise InvalidValueError for a sequence longer than the positions that were learned."""
        if length > limit:
            raise InvalidValueError(
                type(self).__name__,
                f"a sequence of {length} tokens has no positions after {limit}",
                {"tokens": length, setting: limit},
                f"cut the text, or make a model whose config has a larger {setting}",
            )  # fmt: skip


OLD_BUFFERS = (".attn.bias", ".attn.masked_bias", "embeddings.position_ids")
"""Constants that old versions of transformers saved with the weights."""


def is_unused(name: str, base: str) -> bool:
    """Whether a key without a place here is a constant, or of a head: not of the model itself."""
    is_head = name.startswith("head:") or bool(base and not name.startswith(base))
    return is_head or name.endswith(OLD_BUFFERS)


def warn_of_differences(model: str, unused: list[str], absent: list[str]) -> None:
    """Warn of a head that the checkpoint has and the model has not, and the other way round."""
    if unused:
        warn(f"{model}: the checkpoint's {', '.join(unused)} are of another head, and not used")
    if absent:
        warn(
            f"{model}: the checkpoint has no {', '.join(absent)}: they start from random values, "
            "so train them first"
        )


def read_weights(folder: str | Path, op: str) -> dict[str, Tensor]:
    """Return the tensors of a folder's checkpoint, of one file or of several with an index."""
    indices = tuple(f"{name}.index.json" for name in WEIGHT_FILES)
    file = find_file(folder, WEIGHT_FILES + indices, op)
    state: dict[str, Tensor] = {}
    for path in iterate_shards(file, op):
        part = load(path, map_location="cpu")
        if not isinstance(part, Mapping) or not all(isinstance(t, Tensor) for t in part.values()):
            raise CheckpointError(op, f"{path} holds no tensors by name")
        state.update(part)
    return state


def iterate_shards(file: Path, op: str) -> Iterator[Path]:
    """Yield the files that an index names; the file itself if it is no index."""
    if not file.name.endswith(".index.json"):
        yield file
        return
    try:
        names = sorted(set(json.loads(file.read_text("utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(op, f"{file} is no index of weights ({error})") from error
    for name in names:
        yield find_file(file.parent, (Path(name).name,), op)  # never outside of the folder
