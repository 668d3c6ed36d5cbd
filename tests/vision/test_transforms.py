"""Transforms: settings, printing, random numbers, gradients, and what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import edutorch
from edutorch.errors import EdutorchError
from edutorch.vision import transforms as T
from tests.vision.transform_cases import pixels

PIL = pytest.importorskip("PIL.Image", reason="needs the extra `vision`")
F = T.functional


@pytest.fixture
def picture():
    return PIL.fromarray(pixels())


@pytest.fixture
def image():
    return edutorch.from_numpy(pixels().transpose(2, 0, 1).copy())


def test_to_tensor_of_every_mode(picture):
    for mode, dtype, highest in (
        ("RGB", edutorch.float32, 1), ("L", edutorch.float32, 1), ("RGBA", edutorch.float32, 1),
        ("1", edutorch.float32, 1), ("I", edutorch.int32, 255), ("F", edutorch.float32, 255),
    ):  # fmt: skip
        tensor = F.to_tensor(picture.convert(mode))
        assert tensor.dtype is dtype and tensor.is_contiguous()
        assert tensor.shape == (len(picture.convert(mode).getbands()), 9, 12)
        assert tensor.max() <= highest


def test_to_tensor_follows_the_default_dtype(picture):
    edutorch.set_default_dtype(edutorch.float64)
    try:
        assert F.to_tensor(picture).dtype is edutorch.float64
    finally:
        edutorch.set_default_dtype(edutorch.float32)


def test_to_tensor_of_arrays_is_a_copy():
    array = np.ones((2, 3, 1), np.float64)
    tensor = F.to_tensor(array)
    array[:] = 0
    assert tensor.shape == (1, 2, 3) and tensor.dtype is edutorch.float64 and tensor.sum() == 6
    with pytest.raises(ValueError, match=r"to_tensor: expected 2 or 3 axes, found 1"):
        F.to_tensor(np.ones(3))
    with pytest.raises(TypeError, match="tensors are converted by convert_image_dtype"):
        F.to_tensor(edutorch.ones(2))


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "I", "F", "I;16"])
def test_there_and_back(mode):
    channels = {"LA": 2, "RGB": 3, "RGBA": 4}.get(mode, 1)
    array = pixels(4, 5, channels)
    if channels == 1:
        array = array[..., 0].astype(
            {"I": "int32", "F": "float32", "I;16": "uint16"}.get(mode, "uint8")
        )
    first = PIL.fromarray(array)
    assert first.mode == mode
    again = F.to_pil_image(F.pil_to_tensor(first), mode if mode == "F" else None)
    assert again.mode == mode and (np.asarray(again) == array).all()


def test_other_colour_spaces(image):
    assert F.to_pil_image(image, "YCbCr").mode == "YCbCr"
    assert F.to_pil_image(edutorch.ones(4, 2, 2), "CMYK").mode == "CMYK"


@pytest.mark.parametrize(
    ("before", "after"),
    [(edutorch.uint8, edutorch.int16), (edutorch.int16, edutorch.uint8),
     (edutorch.uint8, edutorch.float64), (edutorch.float32, edutorch.uint8),
     (edutorch.float64, edutorch.int32), (edutorch.bool, edutorch.float32)],
)  # fmt: skip
def test_white_stays_white(before, after):
    from edutorch.vision.transforms.functional.image import max_value

    white = edutorch.tensor([max_value(before)], dtype=before)
    converted = F.convert_image_dtype(white, after)
    assert converted.dtype is after
    assert converted.item() / max_value(after) == pytest.approx(1, abs=0.01)


def test_printing():
    chain = T.Compose([
        T.RandomCrop(32, padding=4), T.Resize((4, 5)), T.ToTensor(), T.RandomHorizontalFlip(),
        T.Normalize(mean=[0.5], std=[0.25]), T.RandomErasing(), T.RandomRotation(5),
        T.RandomAffine(3, scale=(0.5, 1)), T.GaussianBlur(3), T.RandomResizedCrop(8),
    ])  # fmt: skip
    assert repr(chain) == (
        "Compose(\n"
        "    RandomCrop(size=(32, 32), padding=4)\n"
        "    Resize(size=(4, 5), interpolation=bilinear, max_size=None, antialias=True)\n"
        "    ToTensor()\n"
        "    RandomHorizontalFlip(p=0.5)\n"
        "    Normalize(mean=[0.5], std=[0.25])\n"
        "    RandomErasing(p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0, inplace=False)\n"
        "    RandomRotation(degrees=[-5.0, 5.0], interpolation=nearest, expand=False, fill=0)\n"
        "    RandomAffine(degrees=[-3.0, 3.0], scale=(0.5, 1))\n"
        "    GaussianBlur(kernel_size=(3, 3), sigma=(0.1, 2.0))\n"
        "    RandomResizedCrop(size=(8, 8), scale=(0.08, 1.0), ratio=(0.75, 1.3333), "
        "interpolation=bilinear, antialias=True)\n"
        ")"
    )
    assert repr(T.RandomApply([T.CenterCrop(2)], 0.25)) == (
        "RandomApply(\n    p=0.25\n    CenterCrop(size=(2, 2))\n)"
    )


def test_a_seed_repeats_a_chain(image):
    chain = T.Compose(
        [T.RandomResizedCrop(6), T.ColorJitter(0.5, 0.5, 0.5, 0.2), T.RandomErasing()]
    )
    results = []
    for _ in range(2):
        edutorch.manual_seed(7)
        results.append(chain(image / 255))
    assert results[0].equal(results[1])


def test_transforms_go_to_workers():
    chain = T.Compose([T.RandomCrop(2), T.Normalize((0.5,), (0.5,)), T.RandAugment()])
    assert repr(pickle.loads(pickle.dumps(chain))) == repr(chain)


def test_gradients_flow_through_tensors():
    image = edutorch.rand(3, 6, 6, requires_grad=True)
    warped = F.rotate(image, 30.0, T.InterpolationMode.BILINEAR, fill=[0.5])
    F.normalize(F.gaussian_blur(F.resize(warped, [4, 4]), 3), [0.5], [0.2]).sum().backward()
    assert image.grad.abs().sum() > 0


def test_batches(image):
    batch = edutorch.stack([image, image.flip(-1)])
    for transform in (T.Resize(5), T.CenterCrop(4), T.GaussianBlur(3, 1.0), T.Grayscale()):
        both = transform(batch)
        assert both[0].equal(transform(image)), transform


def test_inplace(image):
    values = image / 255
    assert F.normalize(values, [0.5], [0.5], inplace=True) is values
    assert F.erase(values, 0, 0, 2, 2, 0.0, inplace=True) is values
    assert T.functional.erase(values, 0, 0, 2, 2, 1.0) is not values


def test_v2_has_the_same_transforms(picture):
    from edutorch.vision.transforms import v2

    assert v2.RandomCrop is T.RandomCrop
    chain = v2.Compose([v2.ToImage(), v2.ToDtype(edutorch.float32, scale=True)])
    assert chain(picture).equal(T.ToTensor()(picture))


REFUSED = [
    (lambda x: T.Compose(T.ToTensor()), TypeError, "Compose: expected a list of transforms"),
    (lambda x: T.Compose([T.ToTensor]), TypeError, r"make an object of it: ToTensor\(…\)"),
    (lambda x: T.Compose([None]), TypeError, r"transforms\[0\] cannot be called"),
    (lambda x: T.Normalize((0.5,), (0.0,))(x / 255), ValueError, "a standard deviation is 0"),
    (lambda x: T.Normalize((0.5,) * 2, (0.5,))(x / 255), ValueError, "the image has 3 channels"),
    (lambda x: T.Normalize((0.5,), (0.5,))(x), TypeError, "normalize: expected floats"),
    (lambda x: F.normalize("x", 0, 1), TypeError, r"put ToTensor\(\) before Normalize"),
    (lambda x: T.RandomCrop(40)(x), ValueError, r"crop is larger than the image\n.*= \(40, 40\)"),
    (lambda x: T.RandomCrop("3"), TypeError, "RandomCrop: `size` is not a size"),
    (lambda x: T.CenterCrop((1, 2, 3)), ValueError, "CenterCrop: `size` is not a size"),
    (lambda x: T.FiveCrop(30)(x), ValueError, "the crops are larger than the image"),
    (lambda x: T.Resize(0)(x), ValueError, "a size is not positive"),
    (lambda x: T.Resize("x"), TypeError, "Resize: argument `size` must be int"),
    (lambda x: T.Resize((1, 2, 3)), ValueError, "`size` has one or two values"),
    (lambda x: F.resize(x, 5, "cubic"), ValueError, "use one of InterpolationMode: NEAREST"),
    (lambda x: F.resize(x, 5, T.InterpolationMode.LANCZOS), ValueError, "for PIL images only"),
    (lambda x: F.resize(x, [5, 5], max_size=9), ValueError, "max_size goes with one size only"),
    (lambda x: F.resize(x, 9, max_size=9), ValueError, "larger than size"),
    (lambda x: F.resize(np.ones((3, 4)), 5), TypeError, "an image is a PIL image or a tensor"),
    (lambda x: F.hflip(edutorch.ones(3)), ValueError, "a tensor image has at least two axes"),
    (lambda x: F.pad(x, [1, 2, 3]), ValueError, "`padding` has 3 values"),
    (lambda x: F.pad(x, "1"), TypeError, "`padding` is not a border"),
    (lambda x: F.pad(x, 1, 0, "wrap"), ValueError, "there is no such padding_mode"),
    (lambda x: F.pad(x, 20, 0, "reflect"), ValueError, "reflected border is smaller"),
    (lambda x: T.RandomHorizontalFlip(2), ValueError, "p is a probability, between 0 and 1"),
    (lambda x: T.ColorJitter(hue=0.7), ValueError, "hue is out of range"),
    (lambda x: T.ColorJitter(brightness=-1), ValueError, "brightness is not negative"),
    (lambda x: T.ColorJitter(contrast="1"), TypeError, "contrast is not a range"),
    (lambda x: F.adjust_hue(x, 0.6), ValueError, "hue_factor lies between -0.5 and 0.5"),
    (lambda x: F.adjust_gamma(x, -1), ValueError, "gamma is not negative"),
    (lambda x: F.adjust_contrast(x[:2], 1), TypeError, "expected 1 or 3 channels, found 2"),
    (lambda x: F.posterize(x / 255, 2), RuntimeError, "posterize: expected uint8"),
    (lambda x: F.posterize(x, 9), ValueError, "bits lies between 0 and 8"),
    (lambda x: F.gaussian_blur(x, 4), ValueError, "kernel_size is odd and positive"),
    (lambda x: F.gaussian_blur(x, 3, -1.0), ValueError, "sigma is positive"),
    (lambda x: T.GaussianBlur(3, (2, 1)), ValueError, "sigma is not a range"),
    (lambda x: T.RandomRotation(-1), ValueError, "degrees is not negative"),
    (lambda x: T.RandomRotation((1, 2, 3)), TypeError, "degrees is not a range"),
    (lambda x: T.RandomAffine(1, translate=(2, 0)), ValueError, "two shares"),
    (lambda x: T.RandomAffine(1, scale=(0, 1)), ValueError, "`scale` is positive"),
    (lambda x: F.affine(x, 0, [1], 1.0, 0), ValueError, "`translate` has two values"),
    (lambda x: F.affine(x, 0, [1, 1], 0, 0), ValueError, "`scale` is positive"),
    (lambda x: F.rotate(x, 5, fill=[1, 2]), ValueError, "2 values for 3 channels"),
    (lambda x: F.perspective(x, [[0, 0]], [[0, 0]]), ValueError, r"four points \[x, y\]"),
    (lambda x: T.RandomErasing(value="black"), ValueError, "there is no such value"),
    (lambda x: T.RandomErasing(1, value=(1, 2))(x), ValueError, "2 values for 3 channels"),
    (lambda x: T.RandomErasing(scale=(0, 2)), ValueError, "shares of the image's area"),
    (lambda x: T.Lambda(3), TypeError, "Lambda: expected a function"),
    (lambda x: T.Grayscale(2)(x), ValueError, "num_output_channels is 1 or 3"),
    (lambda x: F.to_pil_image(edutorch.ones(5, 2, 2)), ValueError, "1 to 4 channels, found 5"),
    (lambda x: F.to_pil_image(x, "L"), ValueError, "the mode does not fit 3 channels of uint8"),
    (lambda x: F.to_pil_image(np.ones((2, 2))), TypeError, "PIL has no images of 1 channels of"),
    (lambda x: F.to_pil_image(edutorch.ones(1, 1, 1, 1)), ValueError, r"images\[0\]"),
    (lambda x: F.pil_to_tensor(x), TypeError, "pil_to_tensor: expected a PIL image"),
    (lambda x: F.convert_image_dtype(x / 255, edutorch.int64), RuntimeError, "fewer digits"),
    (lambda x: T.AutoAugment("cats"), ValueError, "cats"),
]  # fmt: skip


def test_what_is_refused(image):
    wrong = []
    for call, error, text in REFUSED:
        try:
            with pytest.raises(error, match=text):
                call(image)
        except (pytest.fail.Exception, AssertionError, EdutorchError, TypeError) as problem:
            wrong.append(f"{text}: {problem}")
    assert not wrong, "\n".join(wrong)


def test_pillow_is_named_where_it_is_absent(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(ImportError, match=r'Pillow is not installed\n.*"edutorch\[vision\]"'):
        F.to_pil_image(edutorch.ones(1, 2, 2))
