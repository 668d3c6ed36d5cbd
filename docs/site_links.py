"""Writes the links that open a lesson in the browser: `python -m docs.site_links`.

The address is `site` in `[tool.edutorch]` of pyproject.toml; while it is empty, there are none.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from edutorch.cli.lessons import Lesson, read_lessons

ROOT = Path(__file__).resolve().parents[1]
PLACES = ("README.md", "docs/browser.md")
BEGIN, END = "<!-- links to the site -->", "<!-- end of the links -->"


def site_address() -> str:
    """Return the address of the site; "" if there is none."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return str(settings["tool"]["edutorch"]["site"]).rstrip("/")


def links(address: str, lessons: list[Lesson]) -> str:
    """Return a line with a link for each lesson that runs in a browser.

    >>> from edutorch.cli.lessons import read_lessons
    >>> links("https://example.org/edutorch", read_lessons()[:1])
    'Open in the browser: [00](https://example.org/edutorch/lab/index.html?path=00_five_minute_tour.ipynb)'
    """
    if not address:
        return ""
    fitting = [lesson for lesson in lessons if lesson.in_browser]
    each = [
        f"[{lesson.number}]({address}/lab/index.html?path={lesson.path.name})" for lesson in fitting
    ]
    return "Open in the browser: " + " · ".join(each)


def with_links(text: str, line: str) -> str:
    """Return a page in which what stands between the two marks is this line."""
    between = f"{BEGIN}\n{line}\n{END}" if line else f"{BEGIN}\n{END}"
    return re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: between, text, flags=re.S)


if __name__ == "__main__":
    for place in PLACES:
        path = ROOT / place
        line = links(site_address(), read_lessons())
        path.write_text(with_links(path.read_text("utf-8"), line), "utf-8")
