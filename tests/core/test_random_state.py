"""The state of a generator can be saved and restored."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

import edutorch
from edutorch.serialization.decode import decode_generator
from tests.devices import DEVICES
from tests.simulation import simulated

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


# States of earlier versions ----------------------------------------------------------------------

EARLIER = Path(__file__).resolve().parent.parent / "golden" / "random_before_4x32.json"
"""States as NumPy's 4x64 generator wrote them, and the numbers that followed."""

DRAWS: dict[str, Callable[..., edutorch.Tensor]] = {
    "rand": lambda **how: edutorch.rand(5, **how),
    "rand float64": lambda **how: edutorch.rand(3, dtype=edutorch.float64, **how),
    "rand bfloat16": lambda **how: edutorch.rand(3, dtype=edutorch.bfloat16, **how),
    "randn": lambda **how: edutorch.randn(3, **how),
    "randint": lambda **how: edutorch.randint(0, 100, (5,), **how),
    "randperm": lambda **how: edutorch.randperm(6, **how),
    "rand 20000": lambda **how: edutorch.rand(20_000, **how)[-1],
}


@devices
@pytest.mark.parametrize("case", range(3))
def test_a_state_of_an_earlier_version_goes_on_in_its_stream(case, device):
    saved = json.loads(EARLIER.read_text(encoding="utf-8"))[case]
    state = edutorch.tensor(list(saved["state"].encode()), dtype=edutorch.uint8)
    generator = edutorch.Generator(device).set_state(state)
    assert generator.initial_seed() == json.loads(saved["state"])["seed"]
    assert generator.get_state().tolist() == state.tolist(), "it is saved as it was"
    for name, draw in DRAWS.items():
        assert draw(generator=generator, device=device).tolist() == saved[name], name
    half_way = generator.get_state()  # copied, and gone on with as well
    copied = copy.deepcopy(generator)
    expected = edutorch.randn(4, generator=generator, device=device).tolist()
    for other in (copied, generator.set_state(half_way)):
        assert edutorch.randn(4, generator=other, device=device).tolist() == expected
    # A new seed, or a state of now, ends it.
    now = edutorch.Generator(device).manual_seed(5)
    for again in (generator.manual_seed(5), copied.set_state(now.get_state())):
        assert again.get_state().tolist() == now.get_state().tolist()
        assert len(again.get_state()) == 16


def test_a_generator_in_a_file_of_an_earlier_version():
    saved = json.loads(EARLIER.read_text(encoding="utf-8"))[0]
    generator = decode_generator(saved["state"], {"device": "cpu"})
    assert edutorch.rand(5, generator=generator).tolist() == saved["rand"]


def test_a_state_of_an_earlier_gpu_is_refused_elsewhere():
    text = json.dumps({"seed": 1, "random": {"seed": 1, "state": ["uint8", [1, 2]]}})
    state = edutorch.tensor(list(text.encode()), dtype=edutorch.uint8)
    with pytest.raises(ValueError, match="does not fit the device cpu"):
        edutorch.Generator().set_state(state)


@devices
def test_generators_are_pickled_and_copied(device):
    generator = edutorch.Generator(device).manual_seed(8)
    draw(generator, device)
    copies = [
        pickle.loads(pickle.dumps(generator)), copy.copy(generator), copy.deepcopy(generator),
        generator.clone_state(),
    ]  # fmt: skip
    expected = draw(generator, device)
    for other in copies:
        assert other.device == generator.device and other.initial_seed() == 8
        assert draw(other, device) == expected


F, init = edutorch.nn.functional, edutorch.nn.init

RANDOM_FUNCTIONS: dict[str, Callable[[edutorch.Tensor], edutorch.Tensor]] = {
    "multinomial": lambda x: edutorch.multinomial(x.abs(), 4, replacement=True),
    "multinomial, each once": lambda x: edutorch.multinomial(x.abs(), 3),
    "poisson": lambda x: edutorch.poisson(x.abs() * 20),
    "binomial": lambda x: edutorch.binomial(x.abs() * 100, x.abs() / 9),
    "bernoulli": lambda x: edutorch.bernoulli(x.abs() / 9),
    "normal": lambda x: edutorch.normal(x, x.abs()),
    "randperm": lambda x: edutorch.randperm(9, device=x.device),
    "randint_like": lambda x: edutorch.randint_like(x, 100),
    "rand_like": lambda x: edutorch.rand_like(x, dtype=edutorch.float16),
    **{
        name: (lambda x, name=name, args=args: getattr(x.clone(), name)(*args))
        for name, args in (
            ("uniform_", ()), ("normal_", ()), ("exponential_", ()), ("geometric_", (0.3,)),
            ("cauchy_", ()), ("log_normal_", ()), ("bernoulli_", ()), ("random_", ()),
        )
    },
    **{
        name: (lambda x, name=name: getattr(init, name)(x.clone()))
        for name in (
            "xavier_normal_", "kaiming_uniform_", "orthogonal_", "trunc_normal_", "uniform_",
        )
    },
    "sparse_": lambda x: init.sparse_(x.clone(), 0.5),
    "dropout": lambda x: F.dropout(x, 0.5),
    "dropout1d": lambda x: F.dropout1d(x, 0.5),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.5, True),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x, 0.5, True),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x, hard=True),
    "rrelu": lambda x: F.rrelu(-x.abs(), training=True),
    "fractional_max_pool2d": lambda x: F.fractional_max_pool2d(x[None], 2, output_size=2),
}  # fmt: skip


@pytest.mark.parametrize("device", ["strict", "cuda"])
@pytest.mark.parametrize("name", RANDOM_FUNCTIONS)
def test_a_seed_makes_the_same_numbers_on_every_device(name, device):
    """And what is drawn afterwards goes on at the same number of the stream."""
    values = edutorch.linspace(-4, 5, 30).reshape(5, 6)
    results = []
    with simulated(1):
        for place in ("cpu", device):
            x = values.to(place)
            edutorch.manual_seed(8)
            y = RANDOM_FUNCTIONS[name](x)
            assert y.device.type == place
            results.append([y.tolist(), edutorch.rand(2, device=place).tolist()])
    assert results[0] == results[1]
