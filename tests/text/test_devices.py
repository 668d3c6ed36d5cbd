"""Models and generation on every device: nothing asks for what a GPU cannot do."""

from __future__ import annotations

import pytest

import edutorch as torch
from edutorch.text import functional, models
from tests.text import model_cases

pytestmark = pytest.mark.usefixtures("device")


@pytest.mark.parametrize("name", model_cases.MODELS)
def test_training_step(name, device):
    config, settings, inputs = model_cases.MODELS[name]
    model = getattr(models, name)(getattr(models, config)(**settings)).to(device)
    ids = {key: torch.tensor(value, device=device) for key, value in inputs.items()}
    output = model(**ids)
    loss = getattr(output, "loss", None)
    (output.last_hidden_state.sum() if loss is None else loss).backward()
    assert all(p.grad.device == p.device for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("settings", [{}, {"do_sample": True, "top_k": 5, "top_p": 0.9}, {
    "num_beams": 3, "eos_token_id": 37}])  # fmt: skip
def test_generate(settings, device):
    model = model_cases.make(models, "GPT2LMHeadModel").to(device)
    prompts = torch.tensor(model_cases.IDS, device=device)
    mask = torch.tensor(model_cases.LEFT_PADDED, device=device)
    written = model.generate(prompts * mask, attention_mask=mask, max_new_tokens=4, **settings)
    assert written.device == prompts.device and written.shape[1] <= 13


def test_padding(device):
    assert functional.to_tensor([[1, 2], [3]], padding_value=0).sum().item() == 6
