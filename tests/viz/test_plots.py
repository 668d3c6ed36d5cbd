"""Plots: their files, and what of a tensor they are given."""

import numpy as np
import pytest

import edutorch
from edutorch import viz
from edutorch.viz.render.plots import grid_shape, to_host
from edutorch.viz.tensors import images

matplotlib = pytest.importorskip("matplotlib")

SIGNS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.mark.parametrize("usual", ["png", "svg", "pdf"])
def test_a_file_has_the_format_of_its_name_whatever_is_usual(usual, tmp_path):
    plot = viz.image(edutorch.rand(4, 4))
    with matplotlib.rc_context({"savefig.format": usual, "savefig.dpi": 30}):
        png = plot.png()
        assert png.startswith(b"\x89PNG")
        for ending, sign in SIGNS.items():
            assert plot.save(tmp_path / f"a{ending}").read_bytes().startswith(sign)
        assert plot.save(tmp_path / "a").read_bytes().startswith(b"\x89PNG")
    width = int.from_bytes(png[16:20], "big")
    assert width == pytest.approx(110 * plot.figure.get_figwidth(), abs=1)
    assert plot.alt.encode("latin-1") in png  # for who cannot see it
    assert repr(plot) == f"<{plot.alt}>"


@pytest.mark.parametrize(("count", "columns", "grid"), [
    (10, None, (3, 4)), (10, 2, (5, 2)), (1, None, (1, 1)), (3, 8, (1, 3)), (9, None, (3, 3)),
    (64, None, (8, 8)), (5, None, (2, 3)),
])  # fmt: skip
def test_pictures_stand_in_a_square_or_in_so_many_columns(count, columns, grid):
    assert grid_shape(count, columns) == grid


def test_a_large_tensor_is_thinned_along_its_last_axes():
    x = edutorch.arange(60).reshape(3, 20)
    assert to_host(x).shape == (3, 20) and to_host(x).dtype == np.float64
    thinned = to_host(x, most=8)
    np.testing.assert_array_equal(thinned, x.numpy()[:, ::3])
    np.testing.assert_array_equal(to_host(x, most=2), x.numpy()[::2, ::10])
    np.testing.assert_array_equal(to_host(x, most=2, axes=1), x.numpy()[:, ::10])
    np.testing.assert_array_equal(to_host(x, most=2, axes=0), x.numpy())
    np.testing.assert_array_equal(to_host(edutorch.arange(5), most=2), np.arange(5))
    assert to_host(edutorch.tensor([3 + 4j])).tolist() == [5]


def test_as_many_images_as_are_shown(monkeypatch):
    monkeypatch.setattr(images, "MOST_PICTURES", 3)
    assert "are shown" not in viz.image(edutorch.rand(3, 1, 2, 2)).alt
    plot = viz.image(edutorch.rand(4, 1, 2, 2))
    assert "the first 3 are shown" in plot.alt and len(plot.figure.axes) == 3
