"""Transforms against the real torchvision: what it returned stands in tests/golden/vision."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch import ops
from edutorch.vision import transforms
from tests.vision import golden_transforms, transform_cases

PIL = pytest.importorskip("PIL", reason="needs the extra `vision`")


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return json.loads(golden_transforms.FILE.read_text())


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:

        def replace(draws: Any) -> None:
            transform_cases.replace_draws(ops, edutorch.Tensor, draws, patch.setattr)

        return golden_transforms.answers(edutorch, transforms, transforms.functional, replace)


def difference(ours: Any, packed: Any) -> str:
    """Return how two pictures differ; "" if no level differs by more than 1 (floats: 1e-5)."""
    theirs = golden_transforms.unpack(packed)
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"{ours.shape} {ours.dtype}, not {theirs.shape} {theirs.dtype}"
    apart = np.abs(ours.astype(np.float64) - theirs)
    allowed = 1 if theirs.dtype == np.uint8 else 1e-5
    return f"{(apart > allowed).sum()} by up to {apart.max()}" if (apart > allowed).any() else ""


def test_tensors_are_torchvisions(expected, results):
    wrong = {
        name: text
        for name, packed in expected["results"].items()
        if "/tensor" in name and (text := difference(results[name], packed))
    }
    assert not wrong


def test_few_levels_differ_at_all(expected, results):
    """One level in 255 is allowed: the order of a sum of floats decides some roundings."""
    names = [name for name in expected["results"] if "/tensor" in name]
    equal = [
        np.array_equal(results[name], golden_transforms.unpack(expected["results"][name]))
        for name in names
    ]
    assert sum(equal) >= 0.9 * len(names)


def test_pil_images_are_torchvisions(expected, results):
    if expected["pillow"].split(".")[0] != PIL.__version__.split(".")[0]:
        pytest.skip(f"written with Pillow {expected['pillow']}, this is {PIL.__version__}")
    wrong = {
        name: (results[name], text)
        for name, text in expected["results"].items()
        if "/pil" in name and results[name] != text
    }
    assert not wrong


def test_all_cases_are_written(expected, results):
    assert expected["results"].keys() == results.keys()
