"""Draws mutants by a seed: a minimum per area, the rest in proportion to the candidates."""

from __future__ import annotations

import random
from pathlib import Path

from . import javascript, operators
from .areas import AREAS, ROOT, files_of
from .operators import Mutant

LEAST = 20
"""At least so many in each area."""


def candidates(area: str) -> list[Mutant]:
    """Return every fault that can be planted in an area."""
    find = javascript.mutants_of if area == "widgets" else operators.mutants_of
    return [mutant for path in files_of(area) for mutant in find(path)]


def draw(count: int, seed: int, areas: list[str] | None = None) -> dict[str, list[Mutant]]:
    """Return so many mutants by area, the same ones for a seed and a state of the source."""
    names = areas or list(AREAS)
    pools = {area: candidates(area) for area in names}
    least = min(LEAST, max(1, count // len(names)))
    total = sum(map(len, pools.values()))
    spare = max(0, count - least * len(names))
    return {
        area: sample_pool(pool, least + round(spare * len(pool) / total), f"{seed} {area}")
        for area, pool in pools.items()
    }


def sample_pool(pool: list[Mutant], count: int, seed: str) -> list[Mutant]:
    """Draw from one area: first an operator, then a fault of it, so that rare ones come too."""
    chance = random.Random(seed)
    by_operator: dict[str, list[Mutant]] = {}
    for mutant in pool:
        by_operator.setdefault(mutant.operator, []).append(mutant)
    chosen: dict[tuple[Path, int, str], Mutant] = {}
    while len(chosen) < min(count, len(pool) // 2):
        mutant = chance.choice(by_operator[chance.choice(sorted(by_operator))])
        if mutant.path.suffix == ".js" or operators.is_valid(mutant):
            chosen.setdefault((mutant.path, mutant.start, mutant.new), mutant)
    return list(chosen.values())


def mutant_name(mutant: Mutant) -> str:
    """Return how a mutant is told from all others, also when its line has moved."""
    path = mutant.path.relative_to(ROOT)
    return f"{path}:{mutant.scope}: {squeeze(mutant.old)} -> {squeeze(mutant.new)}"


def squeeze(text: str) -> str:
    return " ".join(text.split()) or "nothing"
