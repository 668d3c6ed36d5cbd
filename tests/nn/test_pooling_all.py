"""Every pooling function, for every number of dimensions, against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from edutorch.nn import functional as F
from tests.nn.compare import assert_close
from tests.nn.functions import assert_refused, compare_calls

SHAPES = {1: (2, 3, 9), 2: (2, 1, 5, 6), 3: (1, 1, 4, 5, 3)}
RANKS = pytest.mark.parametrize("rank", [1, 2, 3])


def random_image(rank, batch=True):
    return SHAPES[rank] if batch else SHAPES[rank][1:]


@RANKS
@pytest.mark.parametrize("batch", [True, False])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"stride": 1, "padding": 1},
        {"ceil_mode": True, "stride": 2},
        {"dilation": 2, "stride": 1},
    ],
)
def test_max_pool(rank, batch, settings, device, torch):
    def call(f, x):
        return getattr(f, f"max_pool{rank}d")(x, 2, **settings, return_indices=True)

    compare_calls(torch, device, call, random_image(rank, batch))


@RANKS
def test_max_pool_with_indices_by_its_other_name(rank, device, torch):
    compare_calls(
        torch,
        device,
        lambda f, x: getattr(f, f"max_pool{rank}d_with_indices")(x, 2),
        random_image(rank),
    )


@RANKS
@pytest.mark.parametrize(
    "settings",
    [{}, {"stride": 1, "padding": 1}, {"padding": 1, "count_include_pad": False},
     {"stride": 2, "ceil_mode": True, "padding": 1}, {"divisor_override": 3}],
)  # fmt: skip
def test_avg_pool(rank, settings, device, torch):
    if rank == 1 and "divisor_override" in settings:
        return
    for batch in (True, False):
        compare_calls(
            torch, device, lambda f, x: getattr(f, f"avg_pool{rank}d")(x, 3, **settings),
            random_image(rank, batch), twice=batch,
        )  # fmt: skip


@RANKS
@pytest.mark.parametrize("size", [1, 2, "none", "larger"])
def test_adaptive(rank, size, device, torch):
    wanted = {"none": (None, 2, 1)[:rank], "larger": 7}.get(size, size)
    if rank == 1 and size == "none":
        wanted = 3
    for mode in ("avg", "max"):
        for batch in (True, False):
            compare_calls(
                torch, device,
                lambda f, x, mode=mode: getattr(f, f"adaptive_{mode}_pool{rank}d")(x, wanted),
                random_image(rank, batch), twice=size != "larger",
            )  # fmt: skip
    compare_calls(
        torch, device,
        lambda f, x: getattr(f, f"adaptive_max_pool{rank}d_with_indices")(x, wanted),
        random_image(rank), twice=False,
    )  # fmt: skip


@RANKS
def test_max_unpool(rank, device, torch):
    for batch in (True, False):
        x = torch.randn(random_image(rank, batch), dtype=torch.float64)
        even = x[(..., *(slice(0, n // 2 * 2) for n in x.shape[-rank:]))]
        for image, size in ((even, None), (x, x.shape[-rank:])):
            pooled, where = getattr(torch.nn.functional, f"max_pool{rank}d")(
                image, 2, return_indices=True
            )
            compare_calls(
                torch, device,
                lambda f, y, i, size=size: getattr(f, f"max_unpool{rank}d")(
                    y, i, 2, output_size=size
                ),
                pooled, where,
            )  # fmt: skip


@RANKS
@pytest.mark.parametrize("p", [1, 2, 3.0, float("inf")])
def test_lp_pool(rank, p, device, torch):
    x = torch.rand(random_image(rank), dtype=torch.float64) + 0.5
    compare_calls(torch, device, lambda f, x: getattr(f, f"lp_pool{rank}d")(x, p, 2), x)
    compare_calls(
        torch, device,
        lambda f, x: getattr(f, f"lp_pool{rank}d")(x, p, 3, 2, ceil_mode=True), x, twice=False,
    )  # fmt: skip


@pytest.mark.parametrize("rank", [2, 3])
def test_fractional_max_pool(rank, device, torch):
    torch.manual_seed(7)
    for shape in (SHAPES[rank], SHAPES[rank][1:]):
        lead = (1, shape[0]) if len(shape) == rank + 1 else shape[:2]
        samples = torch.rand(*lead, rank, dtype=torch.float64)
        for size in (
            {"output_size": (2, 4 if rank == 2 else 3, 1)[:rank]},
            {"output_ratio": (0.5, 0.6, 0.4)[:rank]},
        ):
            compare_calls(
                torch, device,
                lambda f, x, u, size=size: getattr(f, f"fractional_max_pool{rank}d")(
                    x, 2, **size, return_indices=True, _random_samples=u.detach()
                ),
                torch.randn(shape, dtype=torch.float64), samples, twice=False,
            )  # fmt: skip
    x = edutorch.randn(*SHAPES[rank], device=device, requires_grad=True)
    y = getattr(F, f"fractional_max_pool{rank}d")(x, 2, output_size=2)
    y.sum().backward()
    assert x.grad is not None and x.grad.sum().item() == y.numel()


@pytest.mark.parametrize("shape", [(2, 5, 3), (2, 5, 3, 2), (1, 4, 2, 2, 2)])
@pytest.mark.parametrize("size", [2, 3])
def test_local_response_norm(shape, size, device, torch):
    compare_calls(torch, device, lambda f, x: f.local_response_norm(x, size, 0.3, 0.8, 1.5), shape)


@pytest.mark.parametrize(("shape", "size"), [((2, 1, 17, 6), (4, 4)), ((1, 9, 33), (2, None))])
def test_uneven_windows_wide_and_narrow(shape, size, device, torch):
    compare_calls(torch, device, lambda f, x: f.adaptive_avg_pool2d(x, size), shape)
    x = torch.randn(shape, dtype=torch.float64)
    x[..., 0, 3], x[..., 8, 4] = float("inf"), float("nan")  # these stay in their windows
    compare_calls(torch, device, lambda f, x: f.adaptive_avg_pool2d(x, (4, 1)), x, twice=False)


def test_a_nan_is_found(device, torch):
    x = torch.tensor([[1.0, float("nan"), 3.0, 2.0]])
    compare_calls(torch, device, lambda f, x: f.adaptive_max_pool1d(x, 2), x, twice=False)
    compare_calls(torch, device, lambda f, x: f.adaptive_avg_pool1d(x, 3), x, twice=False)


# Windows of the lowest value -------------------------------------------------------------------

LOW = {
    "float64": [-float("inf"), float("nan")], "float32": [-float("inf"), float("nan")],
    "float16": [-float("inf")], "bfloat16": [float("nan")], "uint8": [0], "int64": [-(2**63)],
}  # fmt: skip
BORDERED = [{"padding": 1}, {"stride": 1, "padding": 1}, {"dilation": 2, "padding": 1},
            {"stride": 2, "padding": 1, "ceil_mode": True}, {"padding": 0}]  # fmt: skip
POOLINGS = {
    "max_pool": lambda f, n, x, **settings: getattr(f, f"max_pool{n}d")(
        x, 3, **settings, return_indices=True),
    "adaptive_max_pool": lambda f, n, x, **_: getattr(f, f"adaptive_max_pool{n}d")(
        x, 3, return_indices=True),
}  # fmt: skip


def lowest_images(rank, dtype):
    """Yield images of the lowest value, with and without a few other elements."""
    for value in LOW[dtype]:
        for rate in (0.0, 0.2):
            random = np.random.default_rng(rank)
            image = np.full(SHAPES[rank], value, "int64" if "int" in dtype else "float64")
            image[random.uniform(size=image.shape) < rate] = 3
            yield image


@RANKS
@pytest.mark.parametrize("name", POOLINGS)
@pytest.mark.parametrize("dtype", LOW)
def test_the_border_never_wins(rank, name, dtype, torch):
    for image in lowest_images(rank, dtype):
        for settings in BORDERED if name == "max_pool" else BORDERED[:1]:
            results = []
            for library in (edutorch, torch):
                x = library.tensor(image).to(getattr(library, dtype))
                x = x.requires_grad_() if image.dtype == float else x
                try:
                    y, index = POOLINGS[name](library.nn.functional, rank, x, **settings)
                except (RuntimeError, NotImplementedError):
                    assert library is torch  # it has not every pooling of integers
                    return
                if x.requires_grad:
                    y.sum().backward()
                    results.append(x.grad.double())
                results.extend((y.double(), index))
            count = len(results) // 2
            assert_close(results[:count], results[count:], str(settings))


@pytest.mark.parametrize("value", [-float("inf"), float("nan"), 0.0])
@pytest.mark.parametrize("rank", [2, 3])
def test_fractional_windows_of_one_value(rank, value, torch):
    results = []
    for library in (edutorch, torch):
        x = library.full((1, 2) + (5,) * rank, value, dtype=library.float64, requires_grad=True)
        samples = library.full((1, 2, rank), 0.3, dtype=library.float64)
        y, index = getattr(library.nn.functional, f"fractional_max_pool{rank}d")(
            x, 2, output_size=3, _random_samples=samples, return_indices=True
        )
        y.sum().backward()
        results.append((y, index, x.grad))
    assert_close(*results)


def test_a_window_that_sees_only_border():
    x = edutorch.ones(1, 1, 1, requires_grad=True)  # the taps of the first stand at -2 and 1
    y, index = F.max_pool1d(x, 2, 1, 2, dilation=3, return_indices=True)
    y[y > 0].sum().backward()
    assert y.tolist() == [[[-float("inf")] * 2]] and index.tolist() == [[[-1, -1]]]
    assert x.grad is not None and x.grad.item() == 0


def test_an_infinite_gradient_stays_in_its_place():
    x = edutorch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    for stride in (1, 2):
        y = F.max_pool1d(x, 2, stride)
        (grad,) = edutorch.autograd.grad(y, x, edutorch.full(y.shape, float("inf")))
        assert grad.tolist() == [[0.0, float("inf"), float("inf") if stride == 1 else 0.0]]


def test_refusals():
    image = edutorch.ones(1, 2, 5, 5)
    assert_refused(lambda: F.max_pool3d(image[0], 2), "a volume")
    assert_refused(lambda: F.avg_pool2d(image, 2, divisor_override=0), "divisor must be not zero")
    assert_refused(lambda: F.max_pool2d(image, 2, 0), "stride should not be zero")
    assert_refused(lambda: F.max_pool2d(image, (2, 2, 2)), "expected one number or 2")
    assert_refused(lambda: F.adaptive_max_pool2d(image, (1, 2, 3)), "one size or 2")
    assert_refused(
        lambda: F.max_unpool2d(image, image.long()[..., :2], 2), "each number needs an index"
    )
    assert_refused(lambda: F.max_unpool2d(image, image.long() * 400, 2), "lies outside")
    assert_refused(
        lambda: F.max_unpool2d(image, image.long(), 2, output_size=(3, 3)), "invalid output_size"
    )
    assert_refused(
        lambda: F.fractional_max_pool2d(image, 2), "either an output_size or an output_ratio"
    )
    assert_refused(lambda: F.fractional_max_pool2d(image, 3, 4), "do not fit")
    assert_refused(lambda: F.local_response_norm(image[0, 0], 2), "3 axes or more")
