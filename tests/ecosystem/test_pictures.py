"""Real networks in pictures: folded, with the names of their own modules."""

from __future__ import annotations

import pytest
import torch

from edutorch import viz


def resnet50():
    torchvision = pytest.importorskip("torchvision")
    model = torchvision.models.resnet50()
    return model, lambda: model(torch.randn(2, 3, 32, 32)).square().mean()


def vit():
    timm = pytest.importorskip("timm")
    model = timm.create_model("vit_tiny_patch16_224", img_size=32)
    return model, lambda: model(torch.randn(1, 3, 32, 32)).square().mean()


def gpt2():
    transformers = pytest.importorskip("transformers")
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=100, n_embd=96))
    ids = torch.arange(8)[None]
    return model, lambda: model(ids, labels=ids).loss


NAMES = {
    resnet50: ("layer1.0 · Bottleneck", "Bottleneck ×5", "avgpool · AdaptiveAvg", "fc · Linear"),
    vit: ("patch_embed · PatchE", "blocks · Sequential", "cls_token", "head · Linear"),
    gpt2: ("GPT2Block ×12", "transformer.wte.weight = lm_head.weight", "ln_f · LayerNorm"),
}


@pytest.mark.parametrize("make", NAMES, ids=lambda make: make.__name__)
def test_a_folded_live_picture_has_the_names_of_the_modules(make):
    model, loss_of = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with viz.live(model) as view:
        for _ in range(2):
            optimizer.zero_grad()
            loss_of().backward()
            optimizer.step()
    assert view.trouble.findings == {}
    picture = view.drawing()
    assert 10 < picture.dot.count("[id=n") < 40, "it is not folded"
    for name in NAMES[make]:
        assert name in picture.dot
