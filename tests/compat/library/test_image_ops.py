"""`torch.ops.image`: the codecs that torchvision calls, and their errors."""

from __future__ import annotations

import io

import numpy as np
import pytest

import edutorch
from edutorch import ops
from edutorch.vision.io import ImageReadMode

PIL = pytest.importorskip("PIL.Image", reason="needs the extra `vision`")

UNCHANGED, GRAY, RGB = (ImageReadMode[name].value for name in ("UNCHANGED", "GRAY", "RGB"))


@pytest.fixture
def image():
    return (edutorch.arange(3 * 8 * 12) % 251).to(edutorch.uint8).reshape(3, 8, 12)


def encoded(picture, form: str, **settings) -> edutorch.Tensor:
    file = io.BytesIO()
    picture.save(file, form, **settings)
    return edutorch.from_numpy(np.frombuffer(file.getvalue(), np.uint8).copy())


def test_written_and_read(tmp_path, image):
    path = str(tmp_path / "a.png")
    ops.image.write_file(path, ops.image.encode_png(image, 6))
    data = ops.image.read_file(path)
    for decode in (ops.image.decode_png, ops.image.decode_image):
        assert decode(data, UNCHANGED, False).equal(image)
        assert decode(data, GRAY).shape == (1, 8, 12)
    assert ops.image.decode_jpeg(ops.image.encode_jpeg(image, 90), RGB).shape == image.shape


def test_webp_and_16_bits(image):
    picture = PIL.fromarray(image.permute(1, 2, 0).numpy())
    data = encoded(picture, "WEBP", lossless=True)
    assert ops.image.decode_webp(data, UNCHANGED).equal(image)
    with pytest.warns(UserWarning, match="does not support grayscale"):
        assert ops.image.decode_image(data, GRAY).equal(image)
    deep = encoded(PIL.fromarray(np.array([[0, 40000]], np.uint16)), "PNG")
    decoded = ops.image.decode_image(deep, UNCHANGED)
    assert decoded.dtype is edutorch.uint16
    assert decoded.tolist() == [[[0, 40000]]]


def test_an_animation_is_a_batch():
    frames = [PIL.new("RGB", (5, 4), color) for color in ("red", "lime", "blue")]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    decoded = ops.image.decode_gif(data)
    assert decoded.shape == (3, 3, 4, 5)
    assert decoded[:, :, 0, 0].tolist() == [[255, 0, 0], [0, 255, 0], [0, 0, 255]]
    assert ops.image.decode_image(encoded(frames[0], "GIF"), RGB).shape == (3, 4, 5)
    with pytest.raises(RuntimeError, match="damaged"):
        ops.image.decode_gif(data[: len(data) // 2])


def test_an_animation_that_would_fill_the_memory(monkeypatch):
    frames = [PIL.new("RGB", (5, 4), color) for color in ("red", "lime", "blue")]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    monkeypatch.setattr(PIL, "MAX_IMAGE_PIXELS", 50)
    with pytest.raises(RuntimeError, match="too large"):
        ops.image.decode_gif(data)


def test_inks_as_in_the_file():
    picture = PIL.new("CMYK", (8, 8), (0, 200, 100, 50))
    decoded = ops.image.decode_jpeg(encoded(picture, "JPEG", quality=100), UNCHANGED)
    assert (decoded[:, 0, 0].int() - edutorch.tensor([255, 55, 155, 205])).abs().max() <= 2


REFUSED = [
    (lambda x: ops.image.decode_png(x[None], 0), "Input tensor must be 1-dimensional"),
    (lambda x: ops.image.decode_gif(x.float()), "Input tensor must have uint8 data type"),
    (lambda x: ops.image.decode_jpeg(x, 0), "not an image"),
    (lambda x: ops.image.encode_png(x.float(), 6), "Input tensor dtype should be uint8"),
    (lambda x: ops.image.encode_jpeg(x, 75), "Input data should be a 3-dimensional tensor"),
    (lambda x: ops.image.encode_png(x.view(4, 2, 2), 6), "should be 1 or 3, got: 4"),
    (lambda x: ops.image.encode_png(x.view(1, 4, 4), 10), "should be between 0 and 9"),
    (lambda x: ops.image.read_file("absent"), "no such file"),
    (lambda x: ops.image.encode_jpegs_cuda([x], 75), "not decoded on a GPU"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_is_refused(call, words):
    with pytest.raises(RuntimeError, match=words):
        call(edutorch.arange(16, dtype=edutorch.uint8))
