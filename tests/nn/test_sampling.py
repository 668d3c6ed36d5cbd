"""`grid_sample` and `affine_grid` against PyTorch."""

from __future__ import annotations

import pytest

import edutorch
from edutorch.nn import functional as F
from tests.nn.compare import assert_close, ours_of
from tests.nn.functions import assert_refused, compare_calls

CORNERS = pytest.mark.parametrize("align_corners", [True, False])


@CORNERS
@pytest.mark.parametrize(
    ("matrix", "size"), [((2, 2, 3), (2, 1, 4, 3)), ((1, 3, 4), (1, 2, 2, 3, 1))]
)
def test_affine_grid(matrix, size, align_corners, device, torch):
    compare_calls(torch, device, lambda f, x: f.affine_grid(x, size, align_corners), matrix)


@CORNERS
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode, padding, align_corners, device, torch):
    torch.manual_seed(5)
    grid = torch.rand(2, 1, 3, 2, dtype=torch.float64) * 4 - 2
    compare_calls(
        torch, device,
        lambda f, x, g: f.grid_sample(x, g, mode, padding, align_corners), (2, 1, 4, 3), grid,
        twice=mode != "bicubic" or padding == "border",
    )  # fmt: skip


@CORNERS
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_grid_sample_of_volumes(mode, padding, align_corners, device, torch):
    torch.manual_seed(6)
    grid = torch.rand(1, 1, 1, 3, 3, dtype=torch.float64) * 4 - 2
    compare_calls(
        torch, device,
        lambda f, x, g: f.grid_sample(x, g, mode, padding, align_corners), (1, 1, 3, 2, 2), grid,
    )  # fmt: skip


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_edges_and_far_places(padding, device, torch):
    coordinates = [-1.0, 1.0, -0.5, 0.5, 7.5, -30.0, float("inf"), 0.0]
    grid = torch.tensor([[[[a, b] for a in coordinates for b in coordinates]]], dtype=torch.float64)
    for corners in (True, False):
        compare_calls(
            torch, device, lambda f, x, g, c=corners: f.grid_sample(
                x, g, "nearest", padding, c
            ), (1, 1, 4, 4), grid[..., :40, :], twice=False,
        )  # fmt: skip


def test_the_kernels_names(device, torch):
    x, grid = torch.randn(1, 1, 3, 3), torch.rand(1, 2, 2, 2)
    mine = [ours_of(tensor, device) for tensor in (x, grid)]
    expected = torch.grid_sampler(x, grid, 0, 1, True)
    for name in ("grid_sampler", "grid_sampler_2d"):
        actual = getattr(edutorch, name)(*mine, 0, 1, True)
        assert_close(actual, expected, rtol=1e-5, atol=1e-6)
    theta = torch.randn(1, 2, 3)
    expected = torch.affine_grid_generator(theta, (1, 1, 3, 2), False)
    actual = edutorch.affine_grid_generator(ours_of(theta, device), (1, 1, 3, 2), False)
    assert_close(actual, expected, rtol=1e-5, atol=1e-6)


def test_refusals():
    image, grid = edutorch.ones(1, 2, 3, 3), edutorch.zeros(1, 2, 2, 2)
    assert_refused(lambda: F.grid_sample(image, grid, "cubic"), "mode must be one of")
    assert_refused(
        lambda: F.grid_sample(image, grid, padding_mode="circular"), "padding_mode must be"
    )
    assert_refused(lambda: F.grid_sample(image[0], grid), "expected 4 axes")
    assert_refused(
        lambda: F.grid_sample(image, grid.permute(0, 3, 1, 2)[..., :1]), "the coordinates come last"
    )
    assert_refused(lambda: F.grid_sample(image, grid.double()), "same dtype")
    assert_refused(lambda: F.affine_grid(edutorch.zeros(1, 2, 2), (1, 1, 2, 2)), "theta should be")
    assert_refused(lambda: F.affine_grid(edutorch.zeros(1, 2, 3), (1, 1, 0, 2)), "non-zero")
