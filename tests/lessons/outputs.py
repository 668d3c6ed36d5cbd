"""Reads what the cells of a lesson have printed and shown."""

from __future__ import annotations

import re
from html import unescape
from typing import Any


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def printed(outputs: list[Any]) -> str:
    return "".join(output["text"] for output in outputs if output["output_type"] == "stream")


def errors_of(outputs: list[Any]) -> str:
    return "".join(output["text"] for output in outputs if output.get("name") == "stderr")


def shown(outputs: list[Any]) -> list[Any]:
    return [output["data"] for output in outputs if "data" in output]


def drawn_by_graphviz(cell_outputs: list[Any]) -> int:
    pictures = [data for data in shown(cell_outputs) if "image/svg+xml" in data]
    assert all("image/png" in data for data in pictures)
    return len(pictures)


def percent(pattern: str, cell_outputs: list[Any]) -> float:
    match = re.search(pattern, printed(cell_outputs))
    assert match, pattern
    return float(match[1])


def words_of(picture: Any) -> list[str]:
    """Return the words in the boxes and frames of a drawing, without its legend."""
    parts = re.findall(r'class="(?:node|cluster)">.*?</g>', picture, re.DOTALL)
    words = [word for part in parts for word in re.findall(r"<text[^>]*>([^<]*)</text>", part)]
    return [unescape(word) for word in words]


def pictures_of(cell_outputs: list[Any]) -> list[list[str]]:
    """Return the words of each drawing that is an output of its own."""
    return [
        words_of(data["image/svg+xml"]) for data in shown(cell_outputs) if "image/svg+xml" in data
    ]


def ends_with_step(cell_outputs: list[Any], step: int) -> bool:
    """Whether a picture that stays is of this step, and says so."""
    said = f"step {step}, loss "
    stays = [data for data in shown(cell_outputs) if data.get("text/plain", "").startswith(said)]
    return any(said in data["image/svg+xml"] for data in stays)


def boxes_of(picture: str) -> list[str]:
    return re.findall(r'<g [^>]*class="node', picture)
