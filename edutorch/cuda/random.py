"""`torch.cuda.random`: the generators of the cards."""

from __future__ import annotations

from collections.abc import Iterable

from .. import backends
from ..backends.device import DeviceLike
from ..core.tensor import Tensor
from ..ops.random import ALL_GENERATORS, Generator, default_generator
from .devices import card_index

__all__ = [
    "default_generators", "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed",
    "manual_seed_all", "seed", "seed_all", "set_rng_state", "set_rng_state_all",
]  # fmt: skip


def generator_of(device: DeviceLike) -> Generator:
    """Return the default generator of a card."""
    return default_generator(backends.get(backends.ACCELERATOR, card_index(device)))


def generators_on(backend: backends.Backend) -> list[Generator]:
    """Return all generators of a card, and among them its default one."""
    default_generator(backend)
    return [generator for generator in ALL_GENERATORS if generator._backend is backend]


def default_generators() -> tuple[Generator, ...]:
    """Return the default generators of all cards: `torch.cuda.default_generators`."""
    if backends.is_unavailable(backends.ACCELERATOR):
        return ()
    return tuple(map(generator_of, range(backends.cards_of().count)))


def manual_seed(seed: int) -> None:
    """Seed the generator of the current card; does nothing without a card."""
    if not backends.is_unavailable(backends.ACCELERATOR):
        generator_of(None).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all cards; does nothing without a card.

    >>> cuda.manual_seed_all(0)
    """
    for generator in default_generators():
        generator.manual_seed(seed)


def seed() -> None:
    """Seed the generator of the current card with a random number."""
    generator_of(None).seed()


def seed_all() -> None:
    """Seed the generators of all cards with one random number."""
    generators = default_generators()
    if generators:
        manual_seed_all(generators[0].seed())


def initial_seed() -> int:
    """Return the seed of the generator of the current card."""
    return generator_of(None).initial_seed()


def get_rng_state(device: DeviceLike = "cuda") -> Tensor:
    """Return the state of the generator of a card."""
    return generator_of(device).get_state()


def set_rng_state(new_state: Tensor, device: DeviceLike = "cuda") -> None:
    """Restore the state of the generator of a card."""
    generator_of(device).set_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    """Return the states of the generators of all cards: an empty list without a card.

    >>> len(cuda.get_rng_state_all()) == cuda.device_count()
    True
    """
    return [generator.get_state() for generator in default_generators()]


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Restore the states of the generators of all cards."""
    for index, state in enumerate(new_states):
        generator_of(index).set_state(state)
