"""The character GPT that comes with edutorch: its weights, its figure, its command line."""

from __future__ import annotations

import pytest

import edutorch as torch
from edutorch.errors import InvalidValueError
from edutorch.zoo import char_gpt


def test_it_has_learned_the_manual():
    """On topics that it has not read; by their frequency, characters need 4.6 bits."""
    text = char_gpt.load_texts()[1]
    start = text.index('"for"')  # a part of it: all of it takes long
    bits = char_gpt.measure_bits(char_gpt.load_model(), text[start : start + 6000])
    assert bits < 2.1
    assert 4.4 < char_gpt.frequency_bits(text) < 4.8


def test_the_weights_are_small():
    assert char_gpt.WEIGHTS.stat().st_size < 700_000
    model = char_gpt.load_model()
    assert model.lm_head.weight is model.transformer.wte.weight
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_it_writes_on_beyond_its_positions():
    model = char_gpt.load_model()
    torch.manual_seed(0)
    text = char_gpt.write(model, "The for statement", length=150)
    assert text.startswith("The for statement") and len(text) == 167
    torch.manual_seed(0)
    assert char_gpt.write(model, "The for statement", length=150) == text
    with pytest.raises(InvalidValueError, match="the prompt is empty"):
        char_gpt.write(model, "")


def test_training_in_small(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(char_gpt, "measure_bits", lambda model, text: 9.0)
    path = tmp_path / "weights.safetensors"
    char_gpt.main(["--train", "--steps", "4", "--output", str(path)])
    assert "step    0" in capsys.readouterr().out
    assert char_gpt.load_model(path).config.n_positions == 128
    char_gpt.main(["The", "--length", "5"])
    assert len(capsys.readouterr().out) == len("The") + 5 + 1


def test_characters_without_an_id_become_question_marks():
    assert char_gpt.decode(char_gpt.encode("a\n~é")) == "a\n~?"
