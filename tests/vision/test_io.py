"""Image files: read, decoded, encoded and written; what is refused is in `test_hostile_files`."""

from __future__ import annotations

import io

import numpy as np
import pytest

import edutorch
from edutorch.vision import io as images
from tests.vision.transform_cases import pixels

PIL = pytest.importorskip("PIL.Image", reason="needs the extra `vision`")
Mode = images.ImageReadMode


@pytest.fixture
def image():
    return edutorch.from_numpy(pixels().transpose(2, 0, 1).copy())


def encoded(picture, form: str, **settings) -> edutorch.Tensor:
    file = io.BytesIO()
    picture.save(file, form, **settings)
    return edutorch.from_numpy(np.frombuffer(file.getvalue(), np.uint8).copy())


def test_png_there_and_back(tmp_path, image):
    for picture in (image, image[:1]):
        images.write_png(picture, tmp_path / "a.png", compression_level=9)
        assert images.read_image(tmp_path / "a.png").equal(picture)
        assert images.decode_png(images.encode_png(picture)).equal(picture)
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_jpeg_is_near(tmp_path, image):
    smooth = edutorch.arange(0, 256, 2).to(edutorch.uint8).expand(3, 40, 128).contiguous()
    images.write_jpeg(smooth, str(tmp_path / "a.jpg"), quality=95)
    again = images.read_image(str(tmp_path / "a.jpg"))
    assert (again.float() - smooth.float()).abs().max() < 6
    first, second = images.decode_jpeg(images.encode_jpeg([smooth, image]))
    assert first.shape == smooth.shape and second.shape == image.shape


@pytest.mark.parametrize(
    ("mode", "channels"), [("GRAY", 1), ("GRAY_ALPHA", 2), ("RGB", 3), ("RGB_ALPHA", 4)]
)
def test_modes(image, mode, channels):
    data = images.encode_png(image)
    assert images.decode_image(data, Mode[mode]).shape == (channels, 9, 12)
    assert images.decode_image(data, mode).shape == (channels, 9, 12)
    assert images.decode_image(images.encode_png(image[:1]), Mode[mode]).shape[0] == channels


def test_unchanged_is_what_is_in_the_file():
    picture = PIL.fromarray(pixels())
    for made, channels in (
        (picture.convert("L"), 1), (picture.convert("LA"), 2), (picture.convert("RGBA"), 4),
        (picture.convert("P"), 3), (picture.convert("1"), 1),
    ):  # fmt: skip
        decoded = images.decode_image(encoded(made, "PNG"))
        assert decoded.shape[0] == channels and decoded.dtype is edutorch.uint8, made.mode
    deep = PIL.fromarray(np.array([[0, 40000]], np.uint16))
    assert images.decode_image(encoded(deep, "PNG")).tolist() == [[[0, 40000]]]


def test_other_formats(image):
    picture = PIL.fromarray(pixels())
    assert images.decode_gif(encoded(picture, "GIF")).shape == image.shape
    assert images.decode_webp(encoded(picture, "WEBP", lossless=True)).equal(image)


def test_the_cameras_note_turns_the_image():
    picture = PIL.fromarray(pixels())
    exif = PIL.Exif()
    exif[0x0112] = 6
    data = encoded(picture, "JPEG", exif=exif)
    assert images.decode_image(data).shape == (3, 9, 12)
    assert images.decode_image(data, apply_exif_orientation=True).shape == (3, 12, 9)


def test_bytes_there_and_back(tmp_path):
    data = edutorch.tensor([1, 2, 255], dtype=edutorch.uint8)
    images.write_file(tmp_path / "a", data)
    assert images.read_file(str(tmp_path / "a")).equal(data)


REFUSED = [
    (lambda: images.read_file("none"), FileNotFoundError, "there is no such file"),
    (lambda: images.read_image("none"), RuntimeError, "read_image: there is no such file"),
    (lambda: images.write_file("a", edutorch.ones(2)), TypeError, "uint8, one axis"),
    (lambda: images.decode_image(b"abc"), TypeError, r"read_file\(path\) returns one"),
    (lambda: images.encode_png(edutorch.ones(3, 2, 2)), TypeError, "convert_image_dtype"),
    (lambda: images.encode_png("x"), TypeError, "expected a tensor of uint8"),
    (lambda: images.encode_png(zeros(2, 2, 2)), ValueError, "an image of 1 or 3 channels"),
    (lambda: images.encode_png(zeros(1, 3, 2, 2)), ValueError, "make_grid"),
    (lambda: images.encode_png(zeros(3, 0, 2)), ValueError, "an image of 1 or 3 channels"),
    (lambda: images.encode_png(zeros(1, 2, 2), 10), ValueError, "between 0 and 9"),
    (lambda: images.encode_jpeg(zeros(1, 2, 2), 0), ValueError, "between 1 and 100"),
    (lambda: images.decode_jpeg(images.encode_png(zeros(1, 2, 2))), RuntimeError, "a PNG image"),
    (lambda: images.decode_png(images.encode_png(zeros(1, 2, 2)), "CMYK"), ValueError,
     "there is no such mode"),
]  # fmt: skip


def zeros(*shape: int) -> edutorch.Tensor:
    return edutorch.zeros(*shape, dtype=edutorch.uint8)


def test_what_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for call, error, text in REFUSED:
        with pytest.raises(error, match=text):
            call()
    assert not list(tmp_path.iterdir())
