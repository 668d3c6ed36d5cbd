"""COCO: photographs with boxes, outlines or captions, which lie in one JSON file."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any

from ..image_files import DamagedFileError, MissingFileError, near_hint, open_image
from .vision import Transform, VisionDataset


class CocoDetection(VisionDataset):
    """Photographs, and the annotations of each: a list of dicts as they stand in the file.

    The package pycocotools is not needed.

    Args:
        root: the folder of the photographs.
        annFile: the JSON file of the annotations, "instances_val2017.json".

    Attributes:
        ids: the numbers of the photographs, in order.
        categories: the name of each category's number.

    Raises:
        MissingFileError: the JSON file is not there, or a photograph.
        DamagedFileError: it is no JSON of COCO, or a file is no picture.

    Paper: Lin et al., "Microsoft COCO: Common Objects in Context" (2014).
    """

    def __init__(
        self, root: Any, annFile: Any, transform: Transform | None = None,
        target_transform: Transform | None = None, transforms: Transform | None = None,
    ) -> None:  # fmt: skip
        super().__init__(root, transforms, transform, target_transform)
        self.path = Path(annFile)
        content = read_json(self.path, type(self).__name__)
        self.files: dict[int, str] = {}
        self.annotations: dict[int, list[Any]] = {}
        try:
            self.categories = {
                category["id"]: category["name"] for category in content.get("categories", [])
            }
            for image in content["images"]:
                self.files[image["id"]] = self.check_name(image["file_name"])
            for annotation in content["annotations"]:
                self.annotations.setdefault(annotation["image_id"], []).append(annotation)
        except (KeyError, TypeError, AttributeError) as error:
            raise self.damaged(f"{type(error).__name__}: {error}") from error
        unknown = self.annotations.keys() - self.files.keys()
        if unknown:
            raise self.damaged(f"an annotation of image {min(unknown)}, which is not listed")
        self.ids = sorted(self.files)

    def damaged(self, content: str) -> DamagedFileError:
        """Make the error for a file that is not of COCO's format."""
        return DamagedFileError(
            type(self).__name__, "the annotations are not of COCO's format",
            {"path": self.path, "found": content,
             "expected": '{"images": [{"id", "file_name"}], "annotations": [{"image_id", …}]}'},
        )  # fmt: skip

    def check_name(self, name: str) -> str:
        """Return the name of a photograph.

        Raises: DamagedFileError: it leads out of the root.
        """
        path = PurePosixPath(name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts:
            raise self.damaged(f"a file outside of the root: {name!r}")
        return name

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return a photograph and its annotations, after the transforms."""
        number = self.ids[index]
        picture = open_image(Path(self.root) / self.files[number], type(self).__name__)
        target = self.target_of(number)
        picture = picture.convert("RGB")
        return (picture, target) if self.transforms is None else self.transforms(picture, target)

    def target_of(self, number: int) -> list[Any]:
        """Return the annotations of a photograph."""
        return self.annotations.get(number, [])


class CocoCaptions(CocoDetection):
    """Photographs, and the captions of each: a list of texts.

    Args: as of `CocoDetection`, with "captions_val2017.json".
    """

    def target_of(self, number: int) -> list[str]:
        """Return the captions of a photograph."""
        return [annotation["caption"] for annotation in super().target_of(number)]


def read_json(path: Path, op: str) -> dict[str, Any]:
    """Return the dict in a JSON file."""
    if not path.is_file():
        raise MissingFileError(op, "there is no such file", {"annFile": path}, near_hint(path))
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(op, f"the file is no JSON: {error}", {"path": path}) from error
    if not isinstance(content, dict):
        raise DamagedFileError(
            op, "the file holds no dict", {"path": path, "found": type(content).__name__}
        )
    return content


__all__ = ["CocoCaptions", "CocoDetection"]
