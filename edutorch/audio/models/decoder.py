"""CTC decoders: from the probabilities of tokens in each frame to a sequence of tokens.

A network with CTC says in each frame a token, or blank. A sequence of frames means what is left
when repeats are merged and blanks dropped: "hh-ee-l-lloo" is "hello". The most probable tokens one
by one (`greedy_decode`) are the most probable *frames*. Many sequences of frames have the same
meaning, though; `CTCDecoder` searches for the most probable meaning.

Paper: A. Graves et al., "Connectionist temporal classification", 2006.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ... import dtypes
from ...core.tensor import Tensor
from ...errors import InvalidValueError, NotHereError, ShapeValueError
from ...ops import tensor

__all__ = ["CTCDecoder", "CTCHypothesis", "ctc_decoder", "greedy_decode"]

NEVER = -math.inf


class CTCHypothesis(NamedTuple):
    """One reading of an utterance.

    Attributes:
        tokens: their numbers, int64.
        words: empty, since there is no lexicon.
        score: the logarithm of its probability.
        timesteps: the frame in which each token begins, int32.
    """

    tokens: Tensor
    words: list[str]
    score: float
    timesteps: Tensor


def greedy_decode(emission: Tensor, blank: int = 0) -> list[int]:
    """Take the most probable token of each frame, merge repeats, drop blanks.

    Args:
        emission: the scores of the tokens, (frames, tokens).
        blank: the number of the blank token.

    Raises: ValueError: not (frames, tokens).

    >>> frames = nn.functional.one_hot(tensor([0, 2, 2, 0, 2, 1]))
    >>> audio.models.decoder.greedy_decode(frames)
    [2, 2, 1]
    """
    if emission.ndim != 2:
        raise ShapeValueError(
            "greedy_decode", "expected (frames, tokens)", {"emission": tuple(emission.shape)}
        )
    path = emission.argmax(-1).tolist()
    return [
        token for t, token in enumerate(path) if token != blank and (t == 0 or token != path[t - 1])
    ]


class Beam(NamedTuple):
    """A sequence of tokens so far, and the scores of the ways to say it.

    Attributes:
        blank: the score of those that end with a blank.
        token: the score of those that end with its last token.
        timesteps: the frame in which each token begins.
    """

    blank: float = NEVER
    token: float = NEVER
    timesteps: tuple[int, ...] = ()


def add_log(a: float, b: float) -> float:
    """Return log(e^a + e^b).

    >>> math.exp(add_log(math.log(0.25), math.log(0.5)))
    0.75
    """
    high, low = max(a, b), min(a, b)
    return high if low == NEVER else high + math.log1p(math.exp(low - high))


class CTCDecoder:
    """Prefix beam search: in each frame, the best `beam_size` sequences are continued.

    A sequence is kept with two scores, since a repeat means two things: after a blank the same
    token is a new one, without a blank it is still the old one.

    Args: as for `ctc_decoder`.

    >>> decoder = audio.models.decoder.ctc_decoder(None, ["-", "|", "a", "b"], log_add=True)
    >>> probabilities = tensor([[[0.6, 0.0, 0.4, 0.0], [0.6, 0.0, 0.4, 0.0]]])
    >>> best = decoder((probabilities + 1e-9).log())[0][0]  # --: 0.36, but a-, -a and aa: 0.64
    >>> decoder.idxs_to_tokens(best.tokens), f"{math.exp(best.score):.2f}"
    (['a'], '0.64')
    """

    def __init__(
        self,
        tokens: Sequence[str],
        nbest: int,
        beam_size: int,
        beam_size_token: int,
        beam_threshold: float,
        sil_score: float,
        merge: Callable[[float, float], float],
        special: tuple[int, int],
    ) -> None:
        """`merge` adds the scores of two ways, or takes the better; `special`: blank, silence."""
        self.tokens = list(tokens)
        self.nbest = nbest
        self.beam_size = beam_size
        self.beam_size_token = beam_size_token
        self.beam_threshold = beam_threshold
        self.sil_score = sil_score
        self.merge = merge
        self.blank, self.silence = special

    def __call__(
        self, emissions: Tensor, lengths: Tensor | None = None
    ) -> list[list[CTCHypothesis]]:
        """Return the best readings of each utterance.

        Args:
            emissions: the logarithms of the probabilities, (batch, frames, tokens).
            lengths: the valid frames of each utterance, (batch).

        Raises: ValueError: not (batch, frames, tokens).
        """
        if emissions.ndim != 3 or emissions.shape[2] != len(self.tokens):
            raise ShapeValueError(
                "CTCDecoder", f"expected (batch, frames, {len(self.tokens)} tokens)",
                {"emissions": tuple(emissions.shape)},
            )  # fmt: skip
        batch, frames, _ = emissions.shape
        counts = [frames] * batch if lengths is None else lengths.tolist()
        return [
            self._decode(scores[:count])
            for scores, count in zip(emissions.tolist(), counts, strict=True)
        ]

    def _decode(self, frames: list[list[float]]) -> list[CTCHypothesis]:
        beams = {(): Beam(blank=0.0)}
        for t, scores in enumerate(frames):
            beams = self._best(self._advance(beams, t, scores))
        ranked = sorted(beams.items(), key=lambda item: -self.merge(item[1].blank, item[1].token))
        return [
            CTCHypothesis(
                tensor(list(prefix), dtype=dtypes.int64), [], self.merge(beam.blank, beam.token),
                tensor(list(beam.timesteps), dtype=dtypes.int32),
            )
            for prefix, beam in ranked[: self.nbest]
        ]  # fmt: skip

    def _advance(
        self, beams: dict[tuple[int, ...], Beam], t: int, scores: list[float]
    ) -> dict[tuple[int, ...], Beam]:
        """Return all beams after frame t."""
        ahead: dict[tuple[int, ...], Beam] = {}
        likely = sorted(range(len(scores)), key=lambda token: -scores[token])[
            : self.beam_size_token
        ]

        def enter(prefix: tuple[int, ...], timesteps: tuple[int, ...], **ways: float) -> None:
            old = ahead.get(prefix, Beam())
            blank = self.merge(old.blank, ways.get("blank", NEVER))
            token = self.merge(old.token, ways.get("token", NEVER))
            better = max(ways.values()) > max(old.blank, old.token)
            ahead[prefix] = Beam(blank, token, timesteps if better else old.timesteps)

        for prefix, beam in beams.items():
            either = self.merge(beam.blank, beam.token)
            for token in likely:
                score = scores[token]
                if token == self.blank:
                    enter(prefix, beam.timesteps, blank=either + score)
                    continue
                if token == self.silence:
                    score += self.sil_score
                repeats = bool(prefix) and prefix[-1] == token
                if repeats and beam.token > NEVER:  # still the old one
                    enter(prefix, beam.timesteps, token=beam.token + score)
                before = beam.blank if repeats else either
                if before > NEVER:
                    enter((*prefix, token), (*beam.timesteps, t), token=before + score)
        return ahead

    def _best(self, beams: dict[tuple[int, ...], Beam]) -> dict[tuple[int, ...], Beam]:
        """Return the best beams, without those that are hopeless."""
        ranked = sorted(
            ((self.merge(beam.blank, beam.token), prefix) for prefix, beam in beams.items()),
            reverse=True,
        )[: self.beam_size]
        least = ranked[0][0] - self.beam_threshold
        return {prefix: beams[prefix] for score, prefix in ranked if score >= least}

    def idxs_to_tokens(self, idxs: Tensor) -> list[str]:
        """Return the tokens of their numbers."""
        return [self.tokens[index] for index in idxs.tolist()]


def ctc_decoder(
    lexicon: str | None,
    tokens: str | os.PathLike[str] | Sequence[str],
    lm: None = None,
    lm_dict: None = None,
    nbest: int = 1,
    beam_size: int = 50,
    beam_size_token: int | None = None,
    beam_threshold: float = 50,
    lm_weight: float = 2,
    word_score: float = 0,
    unk_score: float = NEVER,
    sil_score: float = 0,
    log_add: bool = False,
    blank_token: str = "-",
    sil_token: str = "|",
    unk_word: str = "<unk>",
) -> CTCDecoder:
    """Make a decoder that searches for the most probable sequences of tokens.

    Args:
        lexicon, lm, lm_dict: None: there are no word lists and language models here.
        tokens: a list of the tokens, or a file with one on each line.
        nbest: so many readings of an utterance are returned.
        beam_size: so many sequences are continued in each frame.
        beam_size_token: of each frame, the most probable tokens that are tried; by default all.
        beam_threshold: sequences whose score is so much below the best one are dropped.
        sil_score: is added for each silence.
        log_add: whether the probabilities of all ways to say a sequence are added; else the best
            way counts.
        blank_token, sil_token: those that mean "nothing" and silence.
        lm_weight, word_score, unk_score, unk_word: without effect, as there is no lexicon.

    Raises: NotHereError: a lexicon or a language model. ValueError: an unknown token, a size
        that is not positive. FileNotFoundError: there is no file of tokens.

    >>> audio.models.decoder.ctc_decoder(None, ["-", "|", "a"]).tokens
    ['-', '|', 'a']
    """
    if lexicon or lm is not None or lm_dict is not None:
        raise NotHereError(
            "ctc_decoder", "there are no lexicons and language models here",
            hint="use lexicon=None; the real torchaudio has them, with flashlight-text",
        )  # fmt: skip
    if isinstance(tokens, str | os.PathLike):
        tokens = Path(tokens).read_text(encoding="utf-8").split()
    tokens = list(tokens)
    for name, token in (("blank_token", blank_token), ("sil_token", sil_token)):
        if token not in tokens:
            raise InvalidValueError(
                "ctc_decoder", f"{name} {token!r} is not among the tokens", {"tokens": tokens[:20]}
            )
    for name, size in (("nbest", nbest), ("beam_size", beam_size)):
        if size < 1:
            raise InvalidValueError("ctc_decoder", f"{name} must be at least 1, got {size}")
    return CTCDecoder(
        tokens, nbest, beam_size, beam_size_token or len(tokens), beam_threshold, sil_score,
        add_log if log_add else max, (tokens.index(blank_token), tokens.index(sil_token)),
    )  # fmt: skip
