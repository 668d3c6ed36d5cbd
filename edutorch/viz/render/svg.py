"""SVG as an XML tree: elements are created, never concatenated from text."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

SVG = "http://www.w3.org/2000/svg"
MONO = "Menlo,Consolas,DejaVu Sans Mono,monospace"
LETTER = 0.602
"""The width of a character of a monospaced font, relative to its size."""

ElementTree.register_namespace("", SVG)


def element(parent: Any, tag: str, text: str = "", **attributes: Any) -> Any:
    """Add an element below `parent`: `class_` is written as class, `_` as a hyphen."""
    names = {key.rstrip("_").replace("_", "-"): str(value) for key, value in attributes.items()}
    child = ElementTree.SubElement(parent, f"{{{SVG}}}{tag}", names)
    child.text = text or None
    return child


def words(parent: Any, text: str, x: float, y: float, size: float = 9, **attributes: Any) -> Any:
    """Add a line of text in the font of all pictures."""
    position = {"x": f"{x:.2f}", "y": f"{y:.2f}", "font_size": f"{size:g}", "font_family": MONO}
    return element(parent, "text", text, **position, **attributes)


def text_width(text: str, size: float = 9) -> float:
    """Return the width of a line of text in points.

    >>> text_width("ten chars!", 10)
    60.2
    """
    return round(len(text) * size * LETTER, 3)


def iter_elements(root: Any, tag: str) -> Any:
    """Yield all elements with a tag."""
    return root.iter(f"{{{SVG}}}{tag}")


def as_text(root: Any) -> str:
    """Return a tree as SVG text."""
    return ElementTree.tostring(root, encoding="unicode")
