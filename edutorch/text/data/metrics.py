"""How good a translation is, measured by its n-grams."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from ...errors import InvalidValueError

Corpus = Sequence[Sequence[str]]


def count_ngrams(tokens: Sequence[str], max_n: int) -> Counter[tuple[str, ...]]:
    """Return how often each n-gram up to a length occurs."""
    return Counter(
        tuple(tokens[start : start + size])
        for size in range(1, max_n + 1)
        for start in range(len(tokens) - size + 1)
    )


def bleu_score(
    candidate_corpus: Corpus, references_corpus: Sequence[Corpus], max_n: int = 4,
    weights: Sequence[float] = (0.25, 0.25, 0.25, 0.25),
) -> float:  # fmt: skip
    """BLEU: how many n-grams of the translations stand in the references.

    score = min(1, exp(1 - r / c)) · exp(Σ wₙ log pₙ), where pₙ is the share of n-grams that a
    reference has (each as often as there), c is the length of all translations, and r that of the
    references closest in length.

    Args:
        candidate_corpus: the tokens of each translation.
        references_corpus: for each translation, the tokens of one or several references.
        max_n: the length of the longest n-grams.
        weights: of the lengths 1 … max_n.

    Paper: Papineni et al., BLEU: a Method for Automatic Evaluation of Machine Translation, 2002.

    >>> candidates = [["My", "full", "pytorch", "test"], ["Another", "Sentence"]]
    >>> first = [["My", "full", "pytorch", "test"], ["Completely", "Different"]]
    >>> print(f'{bleu_score(candidates, [first, [["No", "Match"]]]):.4f}')
    0.8409
    """
    if len(weights) != max_n or len(candidate_corpus) != len(references_corpus):
        raise InvalidValueError(
            "bleu_score", "there must be a weight for each n, and references for each translation",
            {
                "max_n": max_n, "weights": len(weights),
                "candidates": len(candidate_corpus), "references": len(references_corpus),
            },
        )  # fmt: skip
    matches, totals = [0] * max_n, [0] * max_n
    length = reference_length = 0
    for number, (candidate, references) in enumerate(
        zip(candidate_corpus, references_corpus, strict=True)
    ):
        if not references:
            raise InvalidValueError("bleu_score", f"translation {number} has no reference")
        length += len(candidate)
        lengths = [len(reference) for reference in references]
        reference_length += min(lengths, key=lambda size: abs(len(candidate) - size))
        best: Counter[tuple[str, ...]] = Counter()
        for reference in references:
            best |= count_ngrams(reference, max_n)
        for ngram, count in (count_ngrams(candidate, max_n) & best).items():
            matches[len(ngram) - 1] += count
        for size in range(max_n):
            totals[size] += max(len(candidate) - size, 0)
    if min(matches) == 0:
        return 0.0
    precisions = [match / total for match, total in zip(matches, totals, strict=True)]
    score = math.exp(
        sum(weight * math.log(p) for weight, p in zip(weights, precisions, strict=True))
    )
    return score * math.exp(min(1 - reference_length / length, 0.0))
