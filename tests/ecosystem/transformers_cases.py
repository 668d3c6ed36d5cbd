"""Small models of transformers, each with an input: they run on PyTorch and on edutorch.

.venv/bin/python -m tests.ecosystem.oracle -m tests.ecosystem.transformers_cases
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import transformers

from tests.ecosystem.summaries import summarize_training, write_golden
from tests.ecosystem.weights import weights_by_name

SIZES: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37,
}  # fmt: skip
NO_TOKENS: dict[str, Any] = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": 0}
TOKENS = [[3, 14, 15, 9, 2, 6, 5], [31, 41, 59, 26, 5, 35, 89]]
PROMPT = [[3, 14, 15, 9]]


def bert() -> tuple[Any, dict[str, Any]]:
    model = transformers.BertForSequenceClassification(
        transformers.BertConfig(**SIZES, vocab_size=99, num_labels=3)
    )
    mask = [[1] * 7, [1] * 5 + [0] * 2]
    return model, {"input_ids": TOKENS, "attention_mask": mask, "labels": [0, 2]}


def gpt2() -> tuple[Any, dict[str, Any]]:
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64, **NO_TOKENS
        )
    )
    return model, {"input_ids": TOKENS, "labels": TOKENS}


def t5() -> tuple[Any, dict[str, Any]]:
    config = transformers.T5Config(
        vocab_size=99, d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4,
        decoder_start_token_id=0, eos_token_id=None,
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config), {"input_ids": TOKENS, "labels": TOKENS}


def llama() -> tuple[Any, dict[str, Any]]:
    config = transformers.LlamaConfig(
        **SIZES, vocab_size=99, num_key_value_heads=2, max_position_embeddings=64, **NO_TOKENS
    )
    return transformers.LlamaForCausalLM(config), {"input_ids": TOKENS, "labels": TOKENS}


def vit() -> tuple[Any, dict[str, Any]]:
    config = transformers.ViTConfig(**SIZES, image_size=30, patch_size=6, num_labels=3)
    images = np.random.default_rng(0).standard_normal((2, 3, 30, 30), np.float32)
    return transformers.ViTForImageClassification(config), {
        "pixel_values": images,
        "labels": [0, 2],
    }


def wav2vec2() -> tuple[Any, dict[str, Any]]:
    config = transformers.Wav2Vec2Config(
        **SIZES, vocab_size=32, conv_dim=(32, 32, 32), conv_stride=(4, 4, 4),
        conv_kernel=(8, 8, 8), num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2,
    )  # fmt: skip
    waves = np.random.default_rng(0).standard_normal((2, 1024), np.float32)
    return transformers.Wav2Vec2ForCTC(config), {"input_values": waves, "labels": [[1, 2], [3, 4]]}


CASES: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    case.__name__: case for case in (bert, gpt2, t5, llama, vit, wav2vec2)
}
GENERATION: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beam": {"num_beams": 3},
    "penalties": {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2},
    "without a cache": {"use_cache": False},
}


def train(case: str) -> dict[str, Any]:
    """Return what a case computes: its output, its gradients, its output after a step."""
    model, inputs = CASES[case]()
    tensors = {name: torch.tensor(value) for name, value in inputs.items()}

    def loss_of(model: Any) -> tuple[Any, Any]:
        result = model(**tensors)
        return result.logits, result.loss

    return summarize_training(model, loss_of)


def generate(case: str) -> dict[str, list[list[int]]]:
    """Return the tokens that a case generates, in several ways."""
    model, _ = CASES[case]()
    model.load_state_dict(weights_by_name(model.state_dict()))
    model.eval()
    return {
        way: model.generate(
            torch.tensor(PROMPT), max_new_tokens=12, do_sample=False, **settings
        ).tolist()
        for way, settings in GENERATION.items()
    }


if __name__ == "__main__":
    write_golden("transformers", {case: train(case) for case in CASES})
    write_golden("transformers_tokens", {case: generate(case) for case in ("gpt2", "t5", "llama")})
