"""PASCAL VOC: photographs with the class of each pixel, or with boxes around the objects."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree

from ..image_files import DamagedFileError, open_image
from .utils import DataFile, extract_archive, fetch, missing_file, verify_str_arg
from .vision import Transform, VisionDataset

ARCHIVES = {
    "2012": DataFile("VOCtrainval_11-May-2012.tar", "6cd6e144f989b92b3379bac3b3de84fd"),
    "2011": DataFile("VOCtrainval_25-May-2011.tar", "6c3384ef61512963050cb5d687e5bf1e"),
    "2010": DataFile("VOCtrainval_03-May-2010.tar", "da459979d0c395079b5c75ee67908abb"),
    "2009": DataFile("VOCtrainval_11-May-2009.tar", "a3e00b113cfcfebf17e343f59da3caa1"),
    "2008": DataFile("VOCtrainval_14-Jul-2008.tar", "2629fa636546599198acfcfbfcf1904a"),
    "2007": DataFile("VOCtrainval_06-Nov-2007.tar", "c52e279531787972c589f7e41ab4ae64"),
    "2007-test": DataFile("VOCtest_06-Nov-2007.tar", "b6e924de25625d8de591ea690078ad9f"),
}
"""The archive of each year."""


class VOCBase(VisionDataset):
    """What both tasks share: the list of photographs, and where the targets lie."""

    split_folder = target_folder = target_ending = ""
    mirrors: ClassVar[list[str]] = []

    def __init__(
        self, root: Any, year: str = "2012", image_set: str = "train", download: bool = False,
        transform: Transform | None = None, target_transform: Transform | None = None,
        transforms: Transform | None = None,
    ) -> None:  # fmt: skip
        super().__init__(root, transforms, transform, target_transform)
        years = [known for known in ARCHIVES if known != "2007-test"]
        self.year = verify_str_arg(year, "year", years)
        sets = ("train", "trainval", "val", *(("test",) if year == "2007" else ()))
        self.image_set = verify_str_arg(image_set, "image_set", sets)
        folder = Path("TrainVal") if year == "2011" else Path()
        self.folder = Path(self.root) / folder / "VOCdevkit" / f"VOC{year}"
        archive = ARCHIVES["2007-test" if image_set == "test" else year]
        listing = self.folder / "ImageSets" / self.split_folder / f"{image_set}.txt"
        if download and not listing.is_file():
            name = type(self).__name__
            extract_archive(fetch(name, archive, Path(self.root), self.mirrors), self.root)
        if not listing.is_file():
            raise missing_file(type(self).__name__, listing, archive)
        names = [check_name(line.strip(), listing) for line in listing.open() if line.strip()]
        self.images = [str(self.folder / "JPEGImages" / f"{name}.jpg") for name in names]
        self.targets = [
            str(self.folder / self.target_folder / f"{name}{self.target_ending}") for name in names
        ]

    def __len__(self) -> int:
        return len(self.images)

    def change_both(self, picture: Any, target: Any) -> tuple[Any, Any]:
        """Return a picture and its target after the transforms."""
        return (picture, target) if self.transforms is None else self.transforms(picture, target)


def check_name(name: str, listing: Path) -> str:
    """Return a name in a list of photographs.

    Raises: DamagedFileError: it leads to another folder.
    """
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise DamagedFileError(
            "VOC", "the list names a file outside of its folder",
            {"path": listing, "found": repr(name), "expected": "a name such as 2007_000032"},
        )  # fmt: skip
    return name


class VOCSegmentation(VOCBase):
    """Photographs, and the class of each pixel as a second image; 255 is the border of an object.

    Args:
        root: the folder that contains VOCdevkit.
        year: "2007" to "2012".
        image_set: "train", "trainval" or "val"; of 2007 also "test".
        download: whether the archive is copied from an address that the user has named, and
            unpacked.

    Raises:
        MissingFileError: a file is not there; it says which, and the archive's checksum.
        DamagedFileError: a file is no picture, or cut short.

    Paper: Everingham et al., "The PASCAL Visual Object Classes (VOC) Challenge" (2010).
    """

    split_folder, target_folder, target_ending = "Segmentation", "SegmentationClass", ".png"

    @property
    def masks(self) -> list[str]:
        """The paths of the images of classes."""
        return self.targets

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return a photograph and the image of its classes, after the transforms."""
        picture = open_image(self.images[index], "VOCSegmentation").convert("RGB")
        return self.change_both(picture, open_image(self.masks[index], "VOCSegmentation"))


class VOCDetection(VOCBase):
    """Photographs, and the boxes around their objects as nested dicts.

    Args: as of `VOCSegmentation`.

    Raises:
        MissingFileError: a file is not there; it says which, and the archive's checksum.
        DamagedFileError: a file is no picture, or no XML.

    Paper: Everingham et al., "The PASCAL Visual Object Classes (VOC) Challenge" (2010).
    """

    split_folder, target_folder, target_ending = "Main", "Annotations", ".xml"

    @property
    def annotations(self) -> list[str]:
        """The paths of the files of boxes."""
        return self.targets

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return a photograph and its boxes, after the transforms."""
        picture = open_image(self.images[index], "VOCDetection").convert("RGB")
        return self.change_both(picture, read_xml(Path(self.annotations[index])))

    @staticmethod
    def parse_voc_xml(node: ElementTree.Element) -> dict[str, Any]:
        """Return a node of XML as a dict: see `node_to_dict`."""
        return node_to_dict(node)


def read_xml(path: Path) -> dict[str, Any]:
    """Return the annotation in a file.

    Raises: DamagedFileError: it is no XML, or it defines entities, which can fill the memory.
    """
    if not path.is_file():
        raise missing_file("VOCDetection", path, ARCHIVES["2012"])
    text = path.read_bytes()
    try:
        if b"<!ENTITY" in text or b"<!DOCTYPE" in text:
            raise ElementTree.ParseError("it defines entities")
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise DamagedFileError(
            "VOCDetection", f"the annotation is no XML: {error}", {"path": path}
        ) from error
    return node_to_dict(root)


def node_to_dict(node: ElementTree.Element) -> dict[str, Any]:
    """Return a node of XML as a dict: names that occur once stand for a value, others for a list.

    `object` is always a list, since a photograph may show any number of them.

    >>> node_to_dict(ElementTree.fromstring("<a><b>1</b><b>2</b><c> x </c></a>"))
    {'a': {'b': ['1', '2'], 'c': 'x'}}
    """
    children: dict[str, list[Any]] = {}
    for child in node:
        for name, value in node_to_dict(child).items():
            children.setdefault(name, []).append(value)
    if not children:
        return {node.tag: (node.text or "").strip()}
    content = {
        name: values[0] if len(values) == 1 and name != "object" else values
        for name, values in children.items()
    }
    return {node.tag: content}


__all__ = ["VOCDetection", "VOCSegmentation"]
