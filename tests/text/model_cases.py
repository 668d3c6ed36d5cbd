"""Small models and their inputs, for edutorch and for the real transformers alike."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from tests.ecosystem.weights import weights_by_name

GPT2 = {
    "vocab_size": 41, "n_positions": 24, "n_embd": 16, "n_layer": 2, "n_head": 4,
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
BERT = {
    "vocab_size": 41, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 24, "max_position_embeddings": 24,
}  # fmt: skip

rng = np.random.default_rng(0)
IDS = rng.integers(3, 41, (2, 9))
LEFT_PADDED = np.array([[1] * 9, [0] * 3 + [1] * 6])
RIGHT_PADDED = LEFT_PADDED[:, ::-1].copy()
SECOND = np.array([[0] * 5 + [1] * 4] * 2)
BOTH = {"input_ids": IDS, "attention_mask": RIGHT_PADDED, "token_type_ids": SECOND}

MODELS: dict[str, tuple[str, dict[str, Any], dict[str, np.ndarray]]] = {
    "GPT2LMHeadModel": ("GPT2Config", GPT2, {"input_ids": IDS, "labels": IDS}),
    "GPT2Model": ("GPT2Config", GPT2, {"input_ids": IDS}),
    "BertModel": ("BertConfig", BERT, BOTH),
    "BertForMaskedLM": ("BertConfig", BERT, {**BOTH, "labels": IDS}),
    "BertForSequenceClassification": ("BertConfig", BERT, {**BOTH, "labels": np.array([0, 1])}),
    "BertForTokenClassification": ("BertConfig", BERT, {**BOTH, "labels": SECOND}),
    "BertForQuestionAnswering": (
        "BertConfig", BERT,
        {**BOTH, "start_positions": np.array([0, 2]), "end_positions": np.array([3, 4])},
    ),
}  # fmt: skip
"""The config class, its settings, and the inputs of each model."""

OUTPUTS = ("last_hidden_state", "pooler_output", "logits", "start_logits", "end_logits", "loss")

TIED = {
    "lm_head.weight": "transformer.wte.weight",
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}

GENERATE: dict[str, dict[str, Any]] = {
    "greedy": {},
    "greedy, padded": {"padded": True},
    "greedy, an end": {"eos_token_id": 26, "pad_token_id": 3},
    "beams": {"num_beams": 3},
    "beams, padded": {"num_beams": 4, "padded": True},
    "beams, an end": {"num_beams": 4, "eos_token_id": 37, "pad_token_id": 3},
    "beams, another": {"num_beams": 3, "eos_token_id": 23, "pad_token_id": 3},
    "beams, early": {
        "num_beams": 4, "eos_token_id": 37, "pad_token_id": 3, "early_stopping": True
    },
    "beams, several": {
        "num_beams": 4, "eos_token_id": 37, "pad_token_id": 3, "num_return_sequences": 3
    },
    "beams, long": {"num_beams": 3, "eos_token_id": 32, "pad_token_id": 3, "length_penalty": 3.0},
    "beams, short": {"num_beams": 3, "eos_token_id": 22, "pad_token_id": 3, "length_penalty": -1.0},
}  # fmt: skip
"""Calls of `generate`; `padded`: with prompts of different lengths."""


def make(library: Any, name: str) -> Any:
    """Return a model of `transformers` or `edutorch.text.models`, with weights by name."""
    config, settings, _ = MODELS[name]
    model = getattr(library, name)(getattr(library, config)(**settings))
    weights = weights_by_name(model.state_dict())
    for key, source in TIED.items():
        if key in weights:
            weights[key] = weights[source]
    model.load_state_dict(weights)
    return model.eval()


def run(torch: Any, model: Any, name: str) -> dict[str, Any]:
    """Return a model's keys, outputs and gradients, a few numbers of each."""
    inputs = {key: torch.tensor(value) for key, value in MODELS[name][2].items()}
    output = model(**inputs)
    values = {key: getattr(output, key, None) for key in OUTPUTS}
    values = {key: value for key, value in values.items() if value is not None}
    loss = values.get("loss", values.get("last_hidden_state"))
    (loss.sin().sum() + sum(value.sin().mean() for value in values.values())).backward()
    shapes = sorted((key, list(value.shape)) for key, value in model.state_dict().items())
    gradients = sorted((key, parameter.grad) for key, parameter in model.named_parameters())
    return {
        "keys": hashlib.sha256(json.dumps(shapes).encode()).hexdigest()[:16],
        "outputs": {key: sample(value) for key, value in values.items()},
        "gradients": [project(gradient) for _, gradient in gradients if gradient is not None],
    }


def sample(tensor: Any) -> list[float]:
    """Return five values of a tensor, evenly spread."""
    values = np.asarray(tensor.detach().numpy(), np.float64).ravel()
    return [round(float(v), 8) for v in values[np.linspace(0, len(values) - 1, 5).astype(int)]]


def project(gradient: Any) -> float:
    """Return one number that depends on all of a gradient: its product with a fixed direction."""
    values = np.asarray(gradient.detach().numpy(), np.float64).ravel()
    return float(f"{(values * np.cos(np.arange(len(values)))).sum():.6g}")


def generate(torch: Any, model: Any, name: str, **more: Any) -> list[list[int]]:
    """Return what a model writes after two prompts."""
    settings = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0, **GENERATE[name]}
    mask = LEFT_PADDED if settings.pop("padded", False) else np.ones_like(IDS)
    prompts = torch.tensor(IDS * mask)
    return model.generate(prompts, attention_mask=torch.tensor(mask), **settings, **more).tolist()
