"""The settings of a model, as config.json holds them: its depth, its width, its longest text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self

from ...core.error_messages import matches_annotation
from ...errors import EdutorchError
from ...utils.atomic_files import write_atomically

CONFIG_FILE = "config.json"


class ConfigError(EdutorchError, ValueError):
    """A config.json is damaged, or describes another architecture."""


@dataclass
class PretrainedConfig:
    """The settings of an architecture, as config.json holds them.

    Keys that an architecture does not use are kept in `other`, and saved again.
    """

    model_type: ClassVar[str] = ""
    required: ClassVar[dict[str, object]] = {}
    """Settings that the model follows with one value only."""
    eos_token_id: ClassVar[int | None]
    pad_token_id: ClassVar[int | None]
    other: dict[str, object] = field(default_factory=dict, kw_only=True, repr=False)

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Self:
        """Return the config of these settings.

        Raises: ConfigError: they are those of another architecture, or of a wrong type.
        """
        model_type = settings.get("model_type", cls.model_type)
        if model_type != cls.model_type:
            raise ConfigError(
                cls.__name__, "the config is of another architecture",
                {"expected": repr(cls.model_type), "found": repr(model_type)},
                "the real transformers has the others: python -m edutorch add transformers",
            )  # fmt: skip
        for name, value in cls.required.items():
            if settings.get(name, value) != value:
                raise ConfigError(
                    cls.__name__, f"the model is not written for {name} = {settings[name]!r}",
                    {"expected": repr(value), "found": repr(settings[name])},
                    "the real transformers is: python -m edutorch add transformers",
                )  # fmt: skip
        known = {setting.name: setting.type for setting in fields(cls) if setting.name != "other"}
        for name, wanted in known.items():
            if name in settings and not matches_annotation(settings[name], str(wanted)):
                raise ConfigError(
                    cls.__name__, f"{name} is of a wrong type",
                    {"expected": wanted, "found": repr(settings[name])},
                )  # fmt: skip
        used = {name: value for name, value in settings.items() if name in known}
        other = {name: value for name, value in settings.items() if name not in known}
        return cls(**used, other=other)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Self:
        """Return the config in a folder's config.json.

        Raises:
            FileNotFoundError: there is no such file.
            ConfigError: it is damaged, or of another architecture.
        """
        file = find_file(folder, (CONFIG_FILE,), f"{cls.__name__}.from_pretrained")
        try:
            settings = json.loads(file.read_text("utf-8"))
        except ValueError as error:
            raise ConfigError(cls.__name__, f"{file} is not JSON: {error}") from error
        if not isinstance(settings, dict):
            raise ConfigError(cls.__name__, f"{file} holds no settings by name")
        return cls.from_dict(settings)

    def to_dict(self) -> dict[str, Any]:
        """Return all settings, as config.json holds them."""
        own = {name: value for name, value in asdict(self).items() if name != "other"}
        return {**self.other, **own, "model_type": self.model_type}

    def save_pretrained(self, folder: str | Path) -> None:
        """Write config.json into a folder, which is made if it is missing."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"
        write_atomically(Path(folder) / CONFIG_FILE, text.encode())


def find_file(folder: str | Path, names: tuple[str, ...], op: str) -> Path:
    """Return the first of these files that a folder has.

    Raises: FileNotFoundError: it has none of them.
    """
    for name in names:
        if (Path(folder) / name).is_file():
            return Path(folder) / name
    raise FileNotFoundError(
        f"{op}: {Path(folder)} has no {' or '.join(names)}"
        "\n  hint: nothing is downloaded; copy the model's published files into this folder"
    )


@dataclass
class GPT2Config(PretrainedConfig):
    """The settings of GPT-2; the defaults are those of its smallest published version.

    >>> GPT2Config(n_layer=2, n_head=2, n_embd=8).n_positions
    1024
    """

    model_type: ClassVar[str] = "gpt2"
    required: ClassVar = {
        "add_cross_attention": False, "scale_attn_weights": True, "tie_word_embeddings": True,
        "scale_attn_by_inverse_layer_idx": False,
    }  # fmt: skip
    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_inner: int | None = None
    activation_function: str = "gelu_new"
    resid_pdrop: float = 0.1
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    layer_norm_epsilon: float = 1e-5
    initializer_range: float = 0.02
    bos_token_id: int | None = 50256
    eos_token_id: int | None = 50256
    pad_token_id: int | None = None


@dataclass
class BertConfig(PretrainedConfig):
    """The settings of BERT; the defaults are those of bert-base-uncased.

    >>> BertConfig(num_hidden_layers=2).hidden_size
    768
    """

    model_type: ClassVar[str] = "bert"
    required: ClassVar = {
        "add_cross_attention": False, "is_decoder": False, "position_embedding_type": "absolute",
        "tie_word_embeddings": True,
    }  # fmt: skip
    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0
    id2label: dict[Any, str] = field(default_factory=lambda: {"0": "LABEL_0", "1": "LABEL_1"})

    @property
    def num_labels(self) -> int:
        """How many classes `BertForSequenceClassification` tells apart: those of `id2label`."""
        return len(self.id2label)

    @classmethod
    def with_labels(cls, labels: list[str], **settings: Any) -> Self:
        """Return a config for these class names."""
        return cls(id2label={str(number): name for number, name in enumerate(labels)}, **settings)
