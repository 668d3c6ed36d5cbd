"""Images, filters, attention: the pixels are the tensor's, and words say what is to be seen."""

import math

import numpy as np
import pytest

import edutorch
from edutorch import nn, viz
from edutorch.viz.render.plots import NotAPictureError, NotAPictureTypeError
from edutorch.viz.tensors.images import resolve_layout

pytest.importorskip("matplotlib")


def pixels(plot, number=0):
    return plot.figure.axes[number].images[0].get_array()


@pytest.mark.parametrize(
    ("shape", "layout"),
    [((5, 6), "HW"), ((3, 5, 6), "CHW"), ((5, 6, 3), "HWC"), ((7, 5, 6), "NHW"),
     ((2, 1, 5, 6), "NCHW"), ((2, 5, 6, 4), "NHWC")],
)  # fmt: skip
def test_the_layout_is_told_from_the_sizes(shape, layout):
    assert resolve_layout(edutorch.zeros(*shape), None) == layout
    plot = viz.image(edutorch.rand(*shape))
    assert "5×6 pixels" in plot.alt
    bundle = plot._repr_mimebundle_()
    assert bundle["image/png"].startswith(b"\x89PNG")
    assert f'alt="{plot.alt}"' in bundle["text/html"]


def test_colours_are_the_numbers():
    x = edutorch.rand(2, 3, 4, 5)
    shown = pixels(viz.image(x), 1)
    assert np.allclose(shown, x[1].permute(1, 2, 0).numpy())
    whole = edutorch.randint(0, 256, (6, 5, 3), dtype=edutorch.uint8)
    assert np.allclose(pixels(viz.image(whole)), whole.numpy() / 255)


def test_other_ranges_are_stretched_and_it_is_said():
    plot = viz.image(edutorch.tensor([[-2.0, 0.0], [1.0, 2.0]]))
    assert np.allclose(pixels(plot)[..., 0], [[0, 0.5], [0.75, 1]])
    assert "values from -2 to 2, stretched" in plot.alt
    assert "stretched" not in viz.image(edutorch.rand(4, 4)).alt


def test_a_normalisation_is_undone():
    x = edutorch.rand(3, 4, 4)
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
    column = [edutorch.tensor(values).reshape(3, 1, 1) for values in (mean, std)]
    plot = viz.image((x - column[0]) / column[1], mean=mean, std=std)
    assert np.allclose(pixels(plot), x.permute(1, 2, 0).numpy(), atol=1e-6)
    with pytest.raises(NotAPictureError, match="`std` has 2 numbers for 3 channels"):
        viz.image(x, std=(1.0, 2.0))


def test_nan_is_marked_and_counted():
    x = edutorch.zeros(3, 4, 4)
    x[1, 2, 3], x[0, 0, 0] = math.nan, math.inf
    plot = viz.image(x)
    assert "✗ 2 pixels are NaN or Inf (magenta)" in plot.alt
    assert np.allclose(pixels(plot)[2, 3], (1, 0, 1))


def test_a_pixel_is_counted_once_whichever_of_its_colours_are_bad():
    x = edutorch.zeros(2, 3, 4, 5)
    x[0, :2, 1, 1], x[1, :, 2, 2], x[1, 0, 3, 4] = math.nan, math.inf, -math.inf
    assert "✗ 3 pixels are NaN or Inf" in viz.image(x).alt


def test_a_bad_pixel_is_marked_whole_and_is_not_transparent():
    x = edutorch.full((4, 2, 3), 0.25)
    x[3, 0, 0] = math.nan
    shown = pixels(viz.image(x))
    assert shown.shape == (2, 3, 4)
    assert shown[0, 0].tolist() == [1, 0, 1, 1] and shown[0, 1].tolist() == [0.25] * 4


@pytest.mark.parametrize(("values", "shown", "stretched"), [
    ([0.0, 0.25], [0, 0.25], False), ([0.0, 1.0], [0, 1], False), ([0.0, 2.0], [0, 1], True),
    ([-0.5, 0.5], [0, 1], True), ([3.0, 3.0], [0, 0], True), ([0, 51], [0, 0.2], False),
    ([0, 255], [0, 1], False), ([0, 256], [0, 1], True), ([-1, 1], [0, 1], True),
    ([False, True], [0, 1], False), ([math.nan, math.inf], [1, 1], False),
])  # fmt: skip
def test_what_is_black_and_what_is_white(values, shown, stretched):
    plot = viz.image(edutorch.tensor([values]))
    assert np.allclose(pixels(plot)[0, :, 0], shown)
    assert ("stretched" in plot.alt) == stretched


def test_where_each_query_looks_is_said_of_the_first_heads_and_queries():
    weights = np.eye(9, 5, k=1, dtype="f4")[None].repeat(6, 0)
    weights[1] = np.eye(9, 5)
    weights[2, 0] = math.nan
    alt = viz.attention(edutorch.tensor(weights)).alt
    first = "head 0: 0 looks at 1, 1 at 2, 2 at 3, 3 at 4, 4 at 0, 5 at 0, 6 at 0, 7 at 0; head 1"
    assert alt.startswith("attention of 6 heads, 9 queries and 5 keys; " + first)
    assert "head 1: 0 looks at 0, 1 at 1, " in alt and "head 2: 0 looks at 0, 1 at 2" in alt
    assert "head 3" in alt and "head 4" not in alt
    assert viz.attention(edutorch.rand(1, 3)).alt.startswith("attention of 1 head, 1 queries")


def test_the_maps_of_attention_are_labelled():
    plot = viz.attention(edutorch.rand(6, 2, 3), tokens=None)
    *maps, bar = plot.figure.axes
    assert [axes.get_title() for axes in maps] == [f"head {head}" for head in range(6)]
    assert [bool(axes.get_ylabel()) for axes in maps] == [True, False, False, False, True, False]
    assert [bool(axes.get_xlabel()) for axes in maps] == [False, False, True, True, True, True]
    assert bar.get_ylabel() == "weight"
    for axes in maps:
        (drawn,) = axes.images
        assert drawn.get_clim() == (0, 1)
        names = [[text.get_text() for text in labels]
                 for labels in (axes.get_xticklabels(), axes.get_yticklabels())]  # fmt: skip
        assert names == [["0", "1", "2"], ["0", "1"]]
        assert {text.get_rotation() for text in axes.get_xticklabels()} == {90}
        assert {text.get_fontsize() for text in axes.get_yticklabels()} == {7}


def test_titles_stand_above_as_many_images_as_have_one():
    plot = viz.image(edutorch.rand(3, 1, 4, 4), titles=["$a$", "b"])
    assert [axes.get_title() for axes in plot.figure.axes] == ["$a$", "b", ""]
    assert all(not axes.axison for axes in plot.figure.axes)


def test_many_images():
    assert "the first 64 are shown" in viz.image(edutorch.rand(70, 1, 4, 4)).alt
    assert (
        len(viz.image(edutorch.rand(10, 1, 4, 4), columns=5, titles=["$a$"] * 10).figure.axes) == 10
    )


@pytest.mark.parametrize(
    ("shape", "words"),
    [((784,), r"did you mean x.reshape\(28, 28\)"), ((2, 7, 5, 5), "7 channels are no colours"),
     ((1, 2, 3, 4, 5), r"viz.image\(x\[0\]\)"), ((0, 3, 4, 4), "there is nothing in it"), ((), "")],
)  # fmt: skip
def test_what_is_no_image(shape, words):
    with pytest.raises(NotAPictureError, match=words):
        viz.image(edutorch.zeros(shape))


def test_a_wrong_layout():
    with pytest.raises(NotAPictureError, match="unknown layout 'WH'"):
        viz.image(edutorch.zeros(3, 4, 4), layout="WH")
    with pytest.raises(NotAPictureError, match="is no HWC"):
        viz.image(edutorch.zeros(3, 4, 5), layout="HWC")
    with pytest.raises(NotAPictureTypeError, match="expected a tensor, got list"):
        viz.image([1])


def test_filters():
    conv = nn.Conv2d(1, 6, 5)
    plot = viz.filters(conv)
    assert plot.alt == "6 filters of 5×5 over 1 channel"
    assert np.allclose(pixels(plot, 4), conv.weight[4, 0].detach().numpy())
    assert pixels(viz.filters(nn.Conv2d(3, 2, 5))).shape == (5, 5, 3)
    assert "the first 64 maps of 160" in viz.filters(nn.Conv2d(16, 10, 3)).alt
    assert viz.filters(nn.Conv1d(2, 3, 7)).alt == "3 filters of 1×7 over 2 channels"
    with pytest.raises(NotAPictureError, match="not the sizes of filters"):
        viz.filters(nn.Linear(2, 3))
    with pytest.raises(NotAPictureTypeError, match="expected a convolution, got ReLU"):
        viz.filters(nn.ReLU())


def test_attention_of_a_module():
    mha = nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True)
    x = edutorch.randn(3, 4, 8)
    plot = viz.attention(mha, x, tokens=["the", "cat", "$sat$", "<b>"], example=1)
    mha.eval()
    wanted = mha(x, x, x, average_attn_weights=False)[1][1]
    mha.train()
    assert np.allclose(pixels(plot, 1), wanted[1].detach().numpy(), atol=1e-6)
    assert [text.get_text() for text in plot.figure.axes[0].get_xticklabels()][3] == "<b>"
    assert "2 heads, 4 queries and 4 keys" in plot.alt and "the looks at" in plot.alt
    assert "&lt;b&gt;" in plot._repr_mimebundle_()["text/html"]
    assert mha.training and mha.out_proj.weight.grad is None


def test_attention_of_other_things():
    assert "1 head, 2 queries and 3 keys" in viz.attention(edutorch.rand(2, 3)).alt
    with pytest.raises(NotAPictureError, match="`tokens` has 1 texts for 2 positions"):
        viz.attention(edutorch.rand(2, 2), tokens="a")
    with pytest.raises(NotAPictureError, match="there is no example 5"):
        viz.attention(edutorch.rand(2, 1, 3, 3), example=5)
    with pytest.raises(NotAPictureError, match="not the sizes of attention"):
        viz.attention(edutorch.rand(3))
    with pytest.raises(NotAPictureTypeError, match=r"expected nn\.MultiheadAttention, got Linear"):
        viz.attention(nn.Linear(2, 2), edutorch.rand(2, 2))
    with pytest.raises(NotAPictureTypeError, match="expected query, key and value, got 0"):
        viz.attention(nn.MultiheadAttention(4, 2))


def test_a_plot_is_saved(tmp_path):
    plot = viz.image(edutorch.rand(4, 4))
    assert plot.save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in plot.save(tmp_path / "a.svg").read_bytes()


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(edutorch.errors.MissingExtraError, match=r'pip install "edutorch\[lab\]"'):
        viz.image(edutorch.rand(4, 4))
