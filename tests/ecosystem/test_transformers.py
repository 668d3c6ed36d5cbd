"""The real transformers: outputs, gradients, a step of SGD and tokens as on PyTorch."""

import pytest

transformers = pytest.importorskip("transformers")

from tests.ecosystem.summaries import distance, gradient_distance, read_golden  # noqa: E402
from tests.ecosystem.transformers_cases import CASES, GENERATION, generate, train  # noqa: E402


@pytest.mark.parametrize("case", CASES)
def test_models_compute_what_they_do_on_pytorch(case):
    ours, theirs = train(case), read_golden("transformers")[case]
    assert distance(ours["output"], theirs["output"]) < 1e-5
    difference, name = gradient_distance(ours["gradients"], theirs["gradients"])
    assert difference < 1e-4, name
    assert distance(ours["after a step"], theirs["after a step"]) < 1e-5


@pytest.mark.parametrize("case", ["gpt2", "t5", "llama"])
def test_the_same_tokens_are_generated(case):
    ours, theirs = generate(case), read_golden("transformers_tokens")[case]
    assert {way: ours[way] for way in GENERATION} == theirs
