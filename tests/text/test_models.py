"""GPT-2 and BERT against the real transformers on PyTorch (golden_models.py), and bad input."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import numpy as np
import pytest

import edutorch as torch
from edutorch.errors import DimError, InvalidValueError, ShapeError
from edutorch.serialization import CheckpointError
from edutorch.text import models
from edutorch.text.models.pretrained import PretrainedModel, read_weights
from tests.text import model_cases

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "text_models.json").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def gpt2() -> models.GPT2LMHeadModel:
    return model_cases.make(models, "GPT2LMHeadModel")


@pytest.mark.parametrize("name", model_cases.MODELS)
def test_keys_outputs_and_gradients_are_those_of_transformers(name):
    expected = GOLDEN[name]
    result = model_cases.run(torch, model_cases.make(models, name), name)
    assert result["keys"] == expected["keys"]
    assert result["outputs"].keys() == expected["outputs"].keys()
    for key, values in expected["outputs"].items():
        largest = np.abs(values).max()
        np.testing.assert_allclose(result["outputs"][key], values, rtol=0, atol=1e-5 * largest)
    largest = np.abs(expected["gradients"]).max()
    np.testing.assert_allclose(
        result["gradients"], expected["gradients"], rtol=1e-4, atol=3e-6 * largest
    )


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("name", model_cases.GENERATE)
def test_generate_is_that_of_transformers(gpt2, name, use_cache):
    written = model_cases.generate(torch, gpt2, name, use_cache=use_cache)
    assert written == GOLDEN["generate"][name]


def test_the_cache_gives_the_same_scores(gpt2):
    ids = torch.tensor(model_cases.IDS)
    whole = gpt2(ids).logits
    first = gpt2(ids[:, :4], use_cache=True)
    assert [tuple(key.shape) for key, _ in first.past_key_values] == [(2, 4, 4, 4)] * 2
    second = gpt2(ids[:, 4:], past_key_values=first.past_key_values)
    assert torch.allclose(second.logits, whole[:, 4:], atol=1e-6)


def test_no_token_sees_a_later_one(gpt2):
    ids = torch.tensor(model_cases.IDS)
    changed = ids.clone()
    changed[:, 5:] = 7
    assert torch.allclose(gpt2(ids).logits[:, :5], gpt2(changed).logits[:, :5], atol=1e-6)


def test_drawing_repeats_with_a_seed_and_stays_among_the_likely(gpt2):
    prompts = torch.tensor(model_cases.IDS)
    settings = {"do_sample": True, "temperature": 0.7, "top_p": 0.9, "max_new_tokens": 9}
    torch.manual_seed(3)
    first = gpt2.generate(prompts, **settings)
    torch.manual_seed(3)
    assert gpt2.generate(prompts, **settings).tolist() == first.tolist()
    assert first[:, :9].tolist() == prompts.tolist() and first.shape[1] <= 18
    likeliest = gpt2.generate(prompts, do_sample=True, top_k=1, max_new_tokens=4)
    assert likeliest.tolist() == gpt2.generate(prompts, max_new_tokens=4).tolist()


def test_the_length_and_number_of_texts(gpt2):
    prompts = torch.tensor(model_cases.IDS)
    assert gpt2.generate(prompts, max_length=11).shape == (2, 11)
    assert gpt2.generate(prompts, max_length=99, max_new_tokens=1).shape == (2, 10)
    torch.manual_seed(0)
    mask = torch.tensor(model_cases.LEFT_PADDED)
    several = gpt2.generate(
        prompts, mask, do_sample=True, num_return_sequences=3, max_new_tokens=6, temperature=2.0
    )
    assert several.shape[0] == 6 and several[:3, :9].tolist() == [prompts[0].tolist()] * 3
    assert several[0].tolist() != several[1].tolist()


def test_filtered_scores():
    logits = torch.tensor([[0.1, 0.5, 0.15, 0.25]]).log()

    def kept(**settings) -> list[int]:
        return models.filter_logits(logits, **settings)[0].isfinite().nonzero()[:, 0].tolist()

    assert kept(top_k=2) == [1, 3]
    assert kept(top_k=9) == [0, 1, 2, 3]
    assert kept(top_p=0.5) == [1]
    assert kept(top_p=0.6) == [1, 3]
    assert kept(top_p=1.0) == [0, 1, 2, 3]
    assert kept(top_k=3, top_p=0.8) == [1, 3]  # the three are scaled up first
    assert models.filter_logits(logits, temperature=0.5).tolist() == (logits * 2).tolist()


def test_generate_leaves_the_mode_as_it_was(gpt2):
    gpt2.train()
    try:
        gpt2.generate(torch.tensor(model_cases.IDS), max_new_tokens=1)
        assert gpt2.training and gpt2.transformer.drop.training
    finally:
        gpt2.eval()


def test_training_lowers_the_loss():
    torch.manual_seed(0)
    model = models.GPT2LMHeadModel(models.GPT2Config(**model_cases.GPT2, resid_pdrop=0.0))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    ids = torch.tensor(model_cases.IDS)
    losses = []
    for _ in range(30):
        loss = model(ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4
    assert model.lm_head.weight is model.transformer.wte.weight


@pytest.mark.parametrize(("shape", "num_labels"), [((2,), 1), ((2, 3), 3)])
def test_labels_that_are_no_classes(shape, num_labels):
    config = models.BertConfig.with_labels(["a", "b", "c"][:num_labels], **model_cases.BERT)
    model = models.BertForSequenceClassification(config).eval()
    loss, logits = model(torch.tensor(model_cases.IDS), labels=torch.ones(*shape))
    assert logits.shape == (2, num_labels) and loss.item() > 0


# Folders ---------------------------------------------------------------------------------


def save_config(folder: Path, **settings) -> None:
    (folder / "config.json").write_text(json.dumps(settings))


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "BertForMaskedLM", "BertModel"])
def test_saved_and_loaded_models_are_equal(name, tmp_path):
    model = model_cases.make(models, name)
    model.config.other["task_specific_params"] = {"kept": True}
    model.save_pretrained(tmp_path / "new" / "folder")
    loaded = getattr(models, name).from_pretrained(tmp_path / "new" / "folder")
    assert not loaded.training and loaded.config.to_dict() == model.config.to_dict()
    for key, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[key], value), key


def test_a_checkpoint_of_pytorch_in_two_files(tmp_path):
    """As big ones are published: an index names the file of each tensor."""
    from tests.oracle import require_torch

    pytorch = require_torch()
    model = model_cases.make(models, "GPT2LMHeadModel")
    model.config.save_pretrained(tmp_path)
    state = [(key, pytorch.tensor(value.numpy())) for key, value in model.state_dict().items()]
    pytorch.save(dict(state[:10]), tmp_path / "a.bin")
    pytorch.save(dict(state[10:]), tmp_path / "b.bin")
    index = {key: "a.bin" if number < 10 else "b.bin" for number, (key, _) in enumerate(state)}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": index}))
    loaded = models.GPT2LMHeadModel.from_pretrained(tmp_path)
    ids = torch.tensor(model_cases.IDS)
    assert torch.equal(loaded(ids).logits, model(ids).logits)
    (tmp_path / "b.bin").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no b\.bin"):
        models.GPT2LMHeadModel.from_pretrained(tmp_path)


def write_state(folder: Path, model: PretrainedModel, state: dict) -> None:
    model.config.save_pretrained(folder)
    torch.save(state, folder / "pytorch_model.bin")


def test_whole_models_are_saved_and_copied(gpt2, tmp_path):
    torch.save(gpt2, tmp_path / "model.pt")
    loaded = torch.load(tmp_path / "model.pt", weights_only=False)
    ids = torch.tensor(model_cases.IDS)
    for other in (loaded, copy.deepcopy(gpt2)):
        assert torch.equal(other(ids).logits, gpt2(ids).logits)
        assert other.lm_head.weight is other.transformer.wte.weight


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_folders(dtype, tmp_path):
    model = model_cases.make(models, "GPT2LMHeadModel")
    expected = model.lm_head.weight.to(dtype)
    model.to(dtype).save_pretrained(tmp_path)
    loaded = models.GPT2LMHeadModel.from_pretrained(tmp_path)
    assert loaded.lm_head.weight.dtype == torch.float32
    assert torch.equal(loaded.lm_head.weight.to(dtype), expected)


def test_keys_of_old_checkpoints(tmp_path):
    """GPT-2 was published without prefix and with its masks, BERT with gamma and beta."""
    model = model_cases.make(models, "GPT2LMHeadModel")
    old = {key.removeprefix("transformer."): t for key, t in model.state_dict().items()}
    del old["lm_head.weight"]
    write_state(tmp_path, model, {**old, "h.0.attn.bias": torch.ones(1, 1, 8, 8)})
    loaded = models.GPT2LMHeadModel.from_pretrained(tmp_path)
    assert torch.equal(loaded.lm_head.weight, model.lm_head.weight)
    bert = model_cases.make(models, "BertForMaskedLM")
    names = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    old = dict(bert.state_dict())
    for new, name in names.items():
        old = {key.replace(new, name): tensor for key, tensor in old.items()}
    write_state(tmp_path, bert, old)
    loaded = models.BertForMaskedLM.from_pretrained(tmp_path)
    for key, value in bert.state_dict().items():
        assert torch.equal(loaded.state_dict()[key], value), key


def test_another_head_is_told(tmp_path):
    bert = model_cases.make(models, "BertForMaskedLM")
    bert.save_pretrained(tmp_path)
    with pytest.warns() as warned:
        model = models.BertForSequenceClassification.from_pretrained(tmp_path)
    assert "cls.predictions.bias" in str(warned[0].message)
    assert "are of another head, and not used" in str(warned[0].message)
    assert "has no bert.pooler.dense.weight" in str(warned[1].message)
    assert torch.equal(
        model.bert.embeddings.LayerNorm.weight, bert.bert.embeddings.LayerNorm.weight
    )
    with pytest.warns(match="not used"), pytest.warns(match="no pooler"):
        base = models.BertModel.from_pretrained(tmp_path)
    assert torch.equal(base.embeddings.LayerNorm.weight, bert.bert.embeddings.LayerNorm.weight)


def test_bad_folders(tmp_path):
    load = models.GPT2LMHeadModel.from_pretrained
    with pytest.raises(FileNotFoundError, match=r"has no config\.json\n  hint: nothing is downl"):
        load("gpt2")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(models.ConfigError, match="is not JSON"):
        load(tmp_path)
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(models.ConfigError, match="holds no settings by name"):
        load(tmp_path)
    save_config(tmp_path, model_type="bert")
    with pytest.raises(models.ConfigError, match=r"(?s)another architecture.*'gpt2'.*'bert'"):
        load(tmp_path)
    for wrong in ("2", 2.5, None, [2]):
        save_config(tmp_path, n_layer=wrong)
        with pytest.raises(models.ConfigError, match=r"(?s)n_layer is of a wrong type.*= int"):
            load(tmp_path)
    save_config(tmp_path, **model_cases.GPT2, scale_attn_weights=False)
    with pytest.raises(models.ConfigError, match="is not written for scale_attn_weights = False"):
        load(tmp_path)
    save_config(tmp_path, **model_cases.GPT2)
    with pytest.raises(FileNotFoundError, match=r"has no model\.safetensors or pytorch_model\.bin"):
        load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}")
    with pytest.raises(CheckpointError):
        load(tmp_path)
    torch.save([1, 2], tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="holds no tensors by name"):
        load(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": 3}')
    with pytest.raises(CheckpointError, match="no index of weights"):
        load(tmp_path)


def test_an_index_does_not_leave_its_folder(tmp_path):
    inner = tmp_path / "model"
    inner.mkdir()
    torch.save({"w": torch.ones(1)}, tmp_path / "secret.safetensors")
    index = {"weight_map": {"w": "../secret.safetensors"}}
    (inner / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(FileNotFoundError, match=r"has no secret\.safetensors"):
        read_weights(inner, "load")


def test_a_checkpoint_with_other_keys(tmp_path):
    model = model_cases.make(models, "GPT2LMHeadModel")
    state = dict(model.state_dict())
    state["transformer.h.0.attn.c_atn.weight"] = state.pop("transformer.h.0.attn.c_attn.weight")
    write_state(tmp_path, model, state)
    with pytest.raises(RuntimeError, match=r"c_attn\.weight"):
        models.GPT2LMHeadModel.from_pretrained(tmp_path)


# Bad input -------------------------------------------------------------------------------


def test_a_text_beyond_the_positions(gpt2):
    ids = torch.ones(1, 25, dtype=torch.int64)
    with pytest.raises(
        InvalidValueError, match=r"25 tokens has no positions after 24\n.*\n.*n_pos"
    ):
        gpt2(ids)
    with pytest.raises(InvalidValueError, match="has no positions after 24"):
        gpt2.generate(ids[:, :20], max_new_tokens=8)
    bert = model_cases.make(models, "BertModel")
    with pytest.raises(InvalidValueError, match="max_position_embeddings"):
        bert(ids)


def test_an_id_outside_of_the_vocabulary(gpt2):
    with pytest.raises(DimError, match="41"):
        gpt2(torch.tensor([[41]]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0.0}, "temperature must be above 0; greedy is do_sample=False"),
        ({"top_k": 0}, "top_k must be at least 1"),
        ({"top_p": 1.5}, "top_p must be above 0, and at most 1"),
        ({"num_beams": 0}, "num_beams must be at least 1"),
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1"),
        ({"num_return_sequences": 2}, "there are not so many different texts"),
        ({"num_return_sequences": 0}, "num_return_sequences must be at least 1"),
        ({"max_length": 2}, "the prompt is as long as the text may be"),
        ({"num_beams": 2, "do_sample": True}, "takes the best texts and draws none"),
    ],
)
def test_bad_settings_of_generate(gpt2, settings, message):
    with pytest.raises(InvalidValueError, match=message):
        gpt2.generate(torch.tensor([[1, 2]]), **settings)


def test_an_unknown_setting_of_generate(gpt2):
    with pytest.raises(TypeError, match=r"'max_new_token'\n  hint: did you mean `max_new_tokens`"):
        gpt2.generate(torch.tensor([[1, 2]]), max_new_token=3)


def test_bad_prompts(gpt2):
    with pytest.raises(InvalidValueError, match="the prompt is empty"):
        gpt2.generate(torch.zeros(1, 0, dtype=torch.int64))
    with pytest.raises(ShapeError, match=r"input_ids\[None\]"):
        gpt2.generate(torch.tensor([1, 2]))


def test_bad_configs():
    with pytest.raises(InvalidValueError, match="16 features cannot be split into 3 heads"):
        models.GPT2Model(models.GPT2Config(**{**model_cases.GPT2, "n_head": 3}))
    with pytest.raises(InvalidValueError, match="there is no activation function 'geloo'"):
        models.BertModel(models.BertConfig(**model_cases.BERT, hidden_act="geloo"))
