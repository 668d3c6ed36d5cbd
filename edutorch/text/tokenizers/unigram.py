"""Unigram, the tokenizer of SentencePiece: of all ways to split a word, the most probable one.

Each token has a probability; that of a split is the product. Training begins with too many tokens
and drops those that are missed least.

Paper: Kudo, Subword Regularization, arXiv:1804.10959.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from ...errors import InvalidValueError
from .tokenizer import (
    USE_LIBRARY,
    Tokenizer,
    TokenizerFileError,
    check_text,
    check_vocab_size,
    number_tokens,
)

SPACE = "▁"
"""Stands for a space: it begins each word."""
UNKNOWN_PENALTY = 10.0
"""An unknown character is so much less likely, in log-probability, than the rarest token."""


class Unigram(Tokenizer):
    """Tokens with log-probabilities; a word is split where their sum is greatest.

    Args:
        scores: the log-probability of each token; its id is its position.
        unk_token: stands for unknown characters, several in a row for one.

    >>> scores = {"<unk>": 0.0, "▁hug": -3.0, "s": -2.0, "▁h": -2.5, "ugs": -3.5, "▁": -4.0}
    >>> Unigram(scores).tokenize("hugs hug?")
    ['▁hug', 's', '▁hug', '?']
    """

    model_type = "Unigram"

    def __init__(
        self, scores: Mapping[str, float], special_tokens: Iterable[str] = (),
        unk_token: str = "<unk>",
    ) -> None:  # fmt: skip
        super().__init__(number_tokens(scores), special_tokens, unk_token)
        self.scores = dict(scores)
        self.max_length = max(map(len, self.scores))
        self.unknown_score = min(self.scores.values()) - UNKNOWN_PENALTY

    def split_words(self, text: str) -> Iterable[str]:
        """Return the words, each with "▁" for the space before it; the first gets one, too."""
        return split_at_spaces(text)

    def split_word(self, word: str) -> list[str]:
        """Return the most probable tokens of a word (Viterbi's algorithm).

        best[i] is the score of the best split of the first i characters, and start[i] is where
        the last token of that split begins.
        """
        best = [0.0] + [-math.inf] * len(word)
        start = [0] * (len(word) + 1)
        for begin in range(len(word)):
            for end in range(begin + 1, min(begin + self.max_length, len(word)) + 1):
                score = self.scores.get(word[begin:end])
                if score is None and end == begin + 1:
                    score = self.unknown_score
                if score is not None and best[begin] + score > best[end]:
                    best[end], start[end] = best[begin] + score, begin
        tokens: list[str] = []
        end = len(word)
        was_known = True
        while end > 0:
            token = word[start[end] : end]
            is_known = token in self.scores
            if not is_known and not was_known:  # unknown characters in a row are one token
                tokens[-1] = token + tokens[-1]
            else:
                tokens.append(token)
            end, was_known = start[end], is_known
        return tokens[::-1]

    def join_tokens(self, tokens: list[str]) -> str:
        """Return the text, without the space that was put before it."""
        return "".join(tokens).replace(SPACE, " ").removeprefix(" ")

    def to_fast(self) -> Any:
        """Return the same tokenizer as a `tokenizers.Tokenizer`, HuggingFace's in Rust.

        The scores are handed over as they are. (Read from a file, some are off by one in the last
        binary digit there, which decides between splits that are equally probable.)
        """
        fast = super().to_fast()
        settings = self.model_settings()
        vocab = [(token, score) for token, score in settings["vocab"]]
        fast.model = type(fast.model)(vocab, settings["unk_id"], False)
        return fast

    # Training --------------------------------------------------------------------------

    @classmethod
    def train(
        cls, texts: Iterable[str], vocab_size: int, special_tokens: Sequence[str] = (),
        max_length: int = 12, shrinking_factor: float = 0.75,
    ) -> Self:  # fmt: skip
        """Learn tokens and probabilities by expectation maximization.

        It begins with all frequent substrings. Again and again, two rounds of EM make the texts
        more probable, and the tokens without which they lose least are dropped.

        Args:
            vocab_size: how many tokens, all characters and the special ones among them.
            max_length: of a token, in characters.
            shrinking_factor: which part of the tokens each round keeps.
        """
        if not 0 < shrinking_factor < 1:
            raise InvalidValueError(
                "Unigram.train", "the shrinking factor must be between 0 and 1",
                {"shrinking_factor": shrinking_factor},
            )  # fmt: skip
        words: Counter[str] = Counter()
        for text in texts:
            check_text("Unigram.train", text)
            words.update(split_at_spaces(text))
        first = ["<unk>", *(token for token in special_tokens if token != "<unk>")]
        characters = {character for word in words for character in word}
        room = vocab_size - len(first)
        check_vocab_size("Unigram.train", vocab_size, len(first) + len(characters))
        if not characters:
            return cls(dict.fromkeys(first, 0.0), special_tokens)
        scores = seed_scores(words, max_length, 10 * vocab_size)
        while True:
            for _ in range(2):
                scores = maximize(expected_counts(words, scores, max_length), characters)
            if len(scores) <= room:
                break
            scores = prune(
                words, scores, characters, max(room, int(shrinking_factor * len(scores)))
            )
        # Short numbers, which every program reads from a file as the same float.
        scores = {token: round(score, 10) for token, score in scores.items()}
        ranked = dict(sorted(scores.items(), key=lambda item: (-item[1], item[0])))
        return cls({**dict.fromkeys(first, 0.0), **ranked}, special_tokens)

    # Files -----------------------------------------------------------------------------

    def pipeline(self) -> dict[str, Any]:
        """Return the parts of tokenizer.json around the model."""
        spaces = {
            "type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True
        }  # fmt: skip
        return {
            "normalizer": None, "pre_tokenizer": spaces, "post_processor": None, "decoder": spaces,
        }  # fmt: skip

    def model_settings(self) -> dict[str, Any]:
        """Return the model's part of tokenizer.json."""
        return {
            "unk_id": self.vocab[self.unk_token or ""],
            "vocab": [[token, score] for token, score in self.scores.items()],
            "byte_fallback": False,
        }

    @classmethod
    def from_settings(cls, settings: dict[str, Any], special_tokens: list[str]) -> Self:
        """Return the tokenizer that tokenizer.json describes; it must split words at spaces."""
        splitter, model = settings.get("pre_tokenizer") or {}, settings["model"]
        is_plain = splitter.get("type") == "Metaspace" and splitter.get("replacement") == SPACE
        is_always = splitter.get("prepend_scheme", "always") == "always"
        is_split = is_plain and is_always and splitter.get("split", True)
        others = (settings.get("normalizer"), settings.get("post_processor"))
        if not is_split or any(others) or model.get("byte_fallback"):
            raise TokenizerFileError(
                "Unigram", "the tokenizer does more than to split a text at spaces",
                {"pre_tokenizer": splitter.get("type"), "normalizer": settings.get("normalizer")},
                USE_LIBRARY,
            )  # fmt: skip
        if model["unk_id"] is None:
            raise TokenizerFileError("Unigram", "the tokenizer has no token for what is unknown")
        scores = {token: float(score) for token, score in model["vocab"]}
        return cls(scores, special_tokens, model["vocab"][model["unk_id"]][0])


def split_at_spaces(text: str) -> list[str]:
    """Return the words of a text, "▁" for each space.

    >>> split_at_spaces("to  be")
    ['▁to', '▁', '▁be']
    """
    if not text:
        return []
    text = text.replace(" ", SPACE)
    if not text.startswith(SPACE):
        text = SPACE + text
    words = text.split(SPACE)
    return [SPACE + word for word in words[1:]]


# Expectation maximization ----------------------------------------------------------------


def seed_scores(words: Mapping[str, int], max_length: int, count: int) -> dict[str, float]:
    """Return all characters and the substrings that cover most text, with log-frequencies."""
    frequency: Counter[str] = Counter()
    for word, times in words.items():
        for begin in range(len(word)):
            for end in range(begin + 1, min(begin + max_length, len(word)) + 1):
                frequency[word[begin:end]] += times
    covered = {
        piece: times * len(piece)
        for piece, times in frequency.items()
        if len(piece) == 1 or times > 1
    }
    longest = sorted(covered, key=lambda piece: (len(piece) > 1, -covered[piece], piece))[:count]
    total = math.log(sum(covered[piece] for piece in longest))
    return {piece: math.log(covered[piece]) - total for piece in longest}


def expected_counts(
    words: Mapping[str, int], scores: Mapping[str, float], max_length: int
) -> dict[str, float]:
    """Return how often each token is expected to be used, over all splits (the E step).

    forward[i] is the probability of the first i characters, over all their splits, and
    backward[i] that of the rest. A token from i to j is used with probability
    forward[i] · p(token) · backward[j] / forward[n].
    """
    counts: dict[str, float] = dict.fromkeys(scores, 0.0)
    for word, times in words.items():
        length = len(word)
        spans = [
            (begin, end, word[begin:end], math.exp(scores[word[begin:end]]))
            for begin in range(length)
            for end in range(begin + 1, min(begin + max_length, length) + 1)
            if word[begin:end] in scores
        ]
        forward, backward = [1.0] + [0.0] * length, [0.0] * length + [1.0]
        for begin, end, _, probability in spans:  # by their beginnings, so the parts are known
            forward[end] += forward[begin] * probability
        for begin, end, _, probability in reversed(spans):
            backward[begin] += probability * backward[end]
        if forward[length] == 0.0:  # a very long word: smaller than any float
            continue
        for begin, end, token, probability in spans:
            use = forward[begin] * probability * backward[end] / forward[length]
            counts[token] += times * use
    return counts


def maximize(counts: Mapping[str, float], characters: set[str]) -> dict[str, float]:
    """Return the scores of these counts (the M step); tokens that are hardly used are dropped."""
    kept = {
        token: max(count, 0.5)
        for token, count in counts.items()
        if count >= 0.5 or token in characters
    }
    total = math.log(sum(kept.values()))
    return {token: math.log(count) - total for token, count in kept.items()}


def prune(
    words: Mapping[str, int], scores: Mapping[str, float], characters: set[str], count: int
) -> dict[str, float]:
    """Return the `count` tokens, all characters among them, that would be missed most.

    A token that is used n times and can be spelled with others costs n · (its score - theirs).
    """
    model = Unigram({"<unk>": 0.0, **scores})
    used: Counter[str] = Counter()
    for word, times in words.items():
        for token in model.split_word(word):
            used[token] += times
    losses: dict[str, float] = {}
    for token, score in scores.items():
        if token not in characters:
            del model.scores[token]
            parts = model.split_word(token)
            model.scores[token] = score
            losses[token] = used[token] * (score - sum(scores[part] for part in parts))
    room = count - len(characters & scores.keys())
    kept = sorted(losses, key=lambda token: (-losses[token], token))[: max(room, 0)]
    return {token: scores[token] for token in scores if token in characters or token in {*kept}}
