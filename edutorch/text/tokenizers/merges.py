"""Learning merges: the pair of neighbours that is most frequent becomes one token, again and again.

Paper: Sennrich et al., Neural Machine Translation of Rare Words with Subword Units,
arXiv:1508.07909.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from itertools import pairwise

Pair = tuple[str, str]


def merge_pair(parts: list[str], pair: Pair, merged: str) -> list[str]:
    """Return the parts with every occurrence of a pair merged, from left to right.

    >>> merge_pair(["b", "a", "n", "a", "n"], ("a", "n"), "an")
    ['b', 'an', 'an']
    """
    result, index = [], 0
    while index < len(parts):
        if index + 1 < len(parts) and (parts[index], parts[index + 1]) == pair:
            result.append(merged)
            index += 2
        else:
            result.append(parts[index])
            index += 1
    return result


def learn_merges(
    words: Mapping[tuple[str, ...], int],
    ids: dict[str, int],
    vocab_size: int,
    min_frequency: int = 0,
    join: Callable[[str, str], str] = lambda left, right: left + right,
) -> list[Pair]:
    """Return the merges in the order in which they are made; new tokens are added to `ids`.

    Args:
        words: the parts of each word, and how often it occurs.
        ids: the vocabulary; of equally frequent pairs the one with the smallest ids comes first.
        vocab_size: how many tokens to stop at.
        min_frequency: a pair must occur so often.
        join: returns the token of two.

    >>> words = {("a", "b"): 3, ("a", "b", "c"): 2, ("c", "c"): 4}
    >>> learn_merges(words, {"a": 0, "b": 1, "c": 2}, vocab_size=5)
    [('a', 'b'), ('c', 'c')]
    """
    spelled = [list(parts) for parts in words]
    counts = list(words.values())
    frequency: Counter[Pair] = Counter()
    where: defaultdict[Pair, set[int]] = defaultdict(set)  # the words that have a pair
    for word, parts in enumerate(spelled):
        for pair in pairwise(parts):
            frequency[pair] += counts[word]
            where[pair].add(word)

    def entry(pair: Pair) -> tuple[int, int, int, Pair]:
        return -frequency[pair], ids[pair[0]], ids[pair[1]], pair

    queue = [entry(pair) for pair in frequency]
    heapq.heapify(queue)
    merges: list[Pair] = []
    while queue and len(ids) < vocab_size:
        count, _, _, pair = heapq.heappop(queue)
        if -count != frequency[pair]:  # an old entry: the pair has become rarer since
            if frequency[pair] > 0:
                heapq.heappush(queue, entry(pair))
            continue
        if -count < max(min_frequency, 1):
            break
        merged = join(*pair)
        ids.setdefault(merged, len(ids))
        merges.append(pair)
        changed: set[Pair] = set()
        for word in where.pop(pair):
            for old in pairwise(spelled[word]):
                frequency[old] -= counts[word]
            spelled[word] = merge_pair(spelled[word], pair, merged)
            for new in pairwise(spelled[word]):
                frequency[new] += counts[word]
                where[new].add(word)
                if merged in new:
                    changed.add(new)
        for new in changed:
            heapq.heappush(queue, entry(new))
    return merges
