"""CTC decoders: against all sequences of frames, written out."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest

import edutorch
from edutorch.audio.functional import edit_distance, forced_align, merge_tokens
from edutorch.audio.models.decoder import ctc_decoder, greedy_decode

TOKENS = ["-", "|", "a", "b"]


def meaning(path):
    return tuple(token for token, _ in itertools.groupby(path) if token)


def all_readings(probabilities, add):
    """Return the probability of each meaning, by its definition."""
    readings = defaultdict(float)
    frames, tokens = probabilities.shape
    for path in itertools.product(range(tokens), repeat=frames):
        probability = math.prod(probabilities[t, token] for t, token in enumerate(path))
        old = readings[meaning(path)]
        readings[meaning(path)] = old + probability if add else max(old, probability)
    return sorted(readings.items(), key=lambda item: -item[1])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("add", [False, True])
def test_the_best_readings_are_found(seed, add):
    random = np.random.default_rng(seed)
    probabilities = random.dirichlet(np.ones(4), 6)
    emissions = edutorch.tensor(np.log(probabilities)[None], dtype=edutorch.float32)
    decoder = ctc_decoder(None, TOKENS, nbest=5, beam_size=500, beam_threshold=1e9, log_add=add)
    hypotheses = decoder(emissions)[0]
    for hypothesis, (tokens, probability) in zip(
        hypotheses, all_readings(probabilities, add), strict=False
    ):
        assert tuple(hypothesis.tokens.tolist()) == tokens
        assert hypothesis.score == pytest.approx(math.log(probability), abs=1e-4)
        steps = hypothesis.timesteps.tolist()
        assert len(steps) == len(tokens)
        assert steps == sorted(set(steps))


def test_lengths_and_repeats():
    frames = [[0.0, -9, -1, -9], [-9, -9, 0, -9], [-9, -9, 0, -9], [0, -9, -9, -9], [-9, -9, 0, -9]]
    emissions = edutorch.tensor([frames, frames])
    decoder = ctc_decoder(None, TOKENS)
    (first,), (second,) = decoder(emissions, edutorch.tensor([5, 3]))
    assert decoder.idxs_to_tokens(first.tokens) == ["a", "a"]
    assert first.timesteps.tolist() == [1, 4]
    assert decoder.idxs_to_tokens(second.tokens) == ["a"]
    assert greedy_decode(emissions[0]) == [2, 2]


def test_silence_can_be_paid_for():
    emissions = edutorch.tensor([[[-9.0, -1.0, -2.0, -9.0]]])
    assert ctc_decoder(None, TOKENS)(emissions)[0][0].tokens.tolist() == [1]
    assert ctc_decoder(None, TOKENS, sil_score=-3)(emissions)[0][0].tokens.tolist() == [2]


def test_tokens_from_a_file(tmp_path):
    (tmp_path / "tokens.txt").write_text("-\n|\na\n")
    assert ctc_decoder(None, tmp_path / "tokens.txt").tokens == ["-", "|", "a"]


WRONG = {
    "blank_token 'x' is not among the tokens": {"blank_token": "x"},
    "sil_token 'x' is not among the tokens": {"sil_token": "x"},
    "beam_size must be at least 1, got 0": {"beam_size": 0},
    "nbest must be at least 1, got -1": {"nbest": -1},
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_settings(words):
    with pytest.raises(ValueError, match=words):
        ctc_decoder(None, TOKENS, **WRONG[words])


def test_what_is_not_here():
    with pytest.raises(NotImplementedError, match="real torchaudio"):
        ctc_decoder("words.txt", TOKENS)
    with pytest.raises(ValueError, match=r"expected \(batch, frames, 4 tokens\)"):
        ctc_decoder(None, TOKENS)(edutorch.zeros(1, 2, 3))
    with pytest.raises(ValueError, match=r"expected \(frames, tokens\)"):
        greedy_decode(edutorch.zeros(3))


@pytest.mark.parametrize("seed", range(3))
def test_the_alignment_is_the_best_path(seed):
    random = np.random.default_rng(seed)
    probabilities = random.dirichlet(np.ones(3), 6)
    target = (1, 1, 2)
    paths = [path for path in itertools.product(range(3), repeat=6) if meaning(path) == target]
    best = max(paths, key=lambda path: math.prod(probabilities[t, s] for t, s in enumerate(path)))
    log_probs = edutorch.tensor(np.log(probabilities)[None])
    tokens, scores = forced_align(log_probs, edutorch.tensor([target]))
    assert tuple(tokens[0].tolist()) == best
    assert scores.exp().prod().item() == pytest.approx(
        math.prod(probabilities[t, s] for t, s in enumerate(best))
    )
    spans = merge_tokens(tokens[0], scores[0])
    assert [span.token for span in spans] == list(target)


ALIGNMENTS = {
    "only a batch of one": (edutorch.zeros(2, 4, 3), edutorch.tensor([[1], [1]])),
    "contain blank index": (edutorch.zeros(1, 4, 3), edutorch.tensor([[1, 0]])),
    "less than the CTC dimension": (edutorch.zeros(1, 4, 3), edutorch.tensor([[3]])),
    "3 tokens need 5 frames": (edutorch.zeros(1, 4, 3), edutorch.tensor([[1, 1, 1]])),
    "0 tokens need 1 frames": (
        edutorch.zeros(1, 0, 3), edutorch.zeros(1, 0, dtype=edutorch.int64)
    ),
}  # fmt: skip


@pytest.mark.parametrize("words", ALIGNMENTS)
def test_alignments_that_are_impossible(words):
    with pytest.raises(ValueError, match=words):
        forced_align(*ALIGNMENTS[words])


def test_edit_distance():
    assert edit_distance("", "abc") == 3
    assert edit_distance(["the", "cat"], ["a", "cat", "sat"]) == 2
    random = np.random.default_rng(0)
    a, b, c = (random.integers(0, 3, 8).tolist() for _ in range(3))
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)
    assert edit_distance(a, b) == edit_distance(b, a)
