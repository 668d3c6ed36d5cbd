"""The state of a generator can be saved and restored."""

from __future__ import annotations

import pytest

import edutorch
from tests.devices import DEVICES

devices = pytest.mark.parametrize("device", DEVICES)


def draw(generator: edutorch.Generator, device: str) -> list[float]:
    elements = edutorch.rand(3, generator=generator, device=device)
    return [*elements.tolist(), *edutorch.randn(3, generator=generator, device=device).tolist()]


@devices
def test_a_generator_goes_back_to_its_state(device):
    generator = edutorch.Generator(device).manual_seed(3)
    draw(generator, device)
    state = generator.get_state()
    assert state.dtype is edutorch.uint8 and state.ndim == 1
    first = draw(generator, device)
    assert draw(generator, device) != first
    other = edutorch.Generator(device)
    assert other.set_state(state) is other
    assert draw(other, device) == first
    assert other.initial_seed() == 3


def test_the_global_state():
    state = edutorch.get_rng_state()
    first = edutorch.rand(4).tolist()
    edutorch.set_rng_state(state)
    assert edutorch.rand(4).tolist() == first
    with pytest.raises(TypeError, match="bytes"):
        edutorch.set_rng_state(edutorch.zeros(3))


def test_fork_rng_leaves_no_trace_even_of_an_error():
    edutorch.manual_seed(5)
    expected = edutorch.rand(4).tolist()
    edutorch.manual_seed(5)

    def fail() -> None:
        with edutorch.random.fork_rng():
            edutorch.manual_seed(8)
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        fail()
    assert edutorch.rand(4).tolist() == expected
    assert edutorch.initial_seed() == 5


@pytest.mark.parametrize("enabled", [True, False])
def test_fork_rng_of_more_devices(enabled):
    edutorch.manual_seed(5)
    first = edutorch.rand(4, device="strict").tolist()
    edutorch.manual_seed(5)
    with edutorch.random.fork_rng(["strict"], enabled=enabled):
        edutorch.rand(4, device="strict")
    assert (edutorch.rand(4, device="strict").tolist() == first) is enabled


@pytest.mark.parametrize(
    ("fill", "shares"),
    [
        # (below, share): the distribution functions of Exp(2), of tries with p = 0.3, of
        # the Cauchy distribution around 1 with width 2, and of exp of normal numbers.
        (lambda x: x.exponential_(2.0), [(0.5, 0.6321), (1.0, 0.8647)]),
        (lambda x: x.geometric_(0.3), [(1.0, 0.3), (2.0, 0.51), (0.5, 0.0)]),
        (lambda x: x.cauchy_(1.0, 2.0), [(1.0, 0.5), (3.0, 0.75)]),
        (lambda x: x.log_normal_(1.0, 0.5), [(2.71828, 0.5), (4.48169, 0.8413)]),
    ],
    ids=["exponential", "geometric", "cauchy", "log_normal"],
)
@devices
def test_distributions(fill, shares, device):
    edutorch.manual_seed(0)
    for dtype in (edutorch.float64, edutorch.float32):
        x = edutorch.zeros(20000, dtype=dtype, device=device)
        assert fill(x) is x
        for below, share in shares:
            fraction = (x <= below).double().mean().item()
            assert fraction == pytest.approx(share, abs=0.015)


def test_distributions_refuse_impossible_settings():
    x = edutorch.zeros(2)
    for call in (
        lambda: x.exponential_(0),
        lambda: x.geometric_(1.0),
        lambda: x.cauchy_(0, -1),
        lambda: x.log_normal_(0, 0),
    ):
        with pytest.raises(RuntimeError, match=r"expects (lambda|p|sigma|std)"):
            call()
