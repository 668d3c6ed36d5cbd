"""Writes the source of the documentation into a folder, for Sphinx to build.

    python -m docs.make_pages build/docs/source
    python -m docs.make_pages build/docs/source --only exp sum nn.functional.conv2d

It ends with an error if an example in a docstring does not print what it says.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from pathlib import Path

from .pages import classes, families, source
from .pages.entries import NAMESPACES, TENSOR, entries
from .pages.op_page import Page

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


class Folder:
    """Where the pages go. A page that is there already as it should be is left alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written: set[Path] = set()

    def write(self, name: str, text: str) -> None:
        path = self.path / name
        self.written.add(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")

    def copy(self, path: Path, name: str) -> None:
        target = self.path / name
        self.written.add(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)

    def sweep(self) -> None:
        """Remove the pages of functions that are gone."""
        for path in self.path.rglob("*"):
            if path.is_file() and path not in self.written:
                path.unlink()


def write_ops(folder: Folder, only: set[str]) -> list[str]:
    """Write the reference; return what examples got wrong."""
    known = entries()
    chosen = [entry for name, entry in known.items() if not only or name in only]
    pages = [Page(entry) for entry in chosen]
    addresses = {e.op.name: e.name for e in known.values() if e.op is not None}
    used_by: dict[str, list[str]] = {}
    for page in pages:
        for op in page.ops_inside:
            used_by.setdefault(op.name, []).append(page.entry.name)
    by_chapter: dict[str, list] = {chapter: [] for chapter in families.titles()}
    for page in pages:
        folder.write(f"reference/ops/{page.entry.name}.md", page.text(used_by, addresses))
        by_chapter[families.family_of(page.entry.module)[0]].append(page.entry)
    full = [chapter for chapter, inside in by_chapter.items() if inside]
    for chapter in full:
        text = families.chapter_page(families.titles()[chapter], by_chapter[chapter])
        folder.write(f"reference/families/{chapter}.md", text)
    shown = {entry.name: entry for entry in chosen}
    for namespace in (*NAMESPACES, TENSOR):
        text = families.namespace_page(namespace, shown)
        folder.write(f"reference/names/{namespace}.md", text)
    folder.write("reference/index.md", families.reference_page(full))
    return [wrong for page in pages for wrong in page.outcome.wrong]


def write_classes(folder: Folder) -> list[str]:
    """Write the pages of modules, optimizers and transforms."""
    wrong: list[str] = []
    for address, (title, packages) in classes.GUIDES.items():
        index, pages = classes.page(title, packages, wrong)
        if pages:
            folder.write(f"guides/{address}.md", index)
        for name, text in pages.items():
            folder.write(f"guides/files/{name}.md", text)
    return wrong


def write_sources(folder: Folder) -> None:
    """Write a page for each file of the package."""
    for name in source.files():
        folder.write(f"source/{name}.md", source.file_page(name))


WRITTEN = ("index.md", "reading.md", "autograd.md", "applications.md")


def copy_pages(folder: Folder) -> None:
    """Copy what is written by hand, or by another program: pages and notebooks."""
    for page in sorted(HERE.glob("*.md")):
        if page.name != "README.md":
            place = page.name if page.name in WRITTEN else f"about/{page.name}"
            folder.write(place, inside_links(page.read_text(encoding="utf-8")))
    for page in sorted((HERE / "course").glob("*.md")):
        name = "index.md" if page.name == "README.md" else page.name
        folder.write(f"course/{name}", inside_links(page.read_text(encoding="utf-8")))
    folder.copy(HERE / "_static" / "course_map.svg", "_static/course_map.svg")
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        folder.copy(notebook, f"notebooks/{notebook.name}")


def inside_links(text: str) -> str:
    """Turn links to files of the repository into links to their pages here.

    >>> inside_links("[modes](../edutorch/modes.py), [the rules](../CONTRIBUTING.md)")
    '{source}`edutorch/modes.py`, the rules'
    >>> inside_links("[the notes](../docs/course/README.md), [teachers](../teachers.md)")
    '{doc}`the notes </course/index>`, {doc}`teachers </about/teachers>`'
    >>> inside_links("lesson [17](../notebooks/17_diffusion.ipynb)")
    'lesson {doc}`17 </notebooks/17_diffusion>`'
    """

    def link(match: re.Match[str]) -> str:
        title, path = match.groups()
        if page := re.fullmatch(r"(?:docs/course|course)/(?:README|(\d\d))\.md", path):
            return f"{{doc}}`{title} </course/{page[1] or 'index'}>`"
        if lesson := re.fullmatch(r"(notebooks/\w+)\.ipynb", path):
            return f"{{doc}}`{title} </{lesson[1]}>`"
        if path == "teachers.md":
            return f"{{doc}}`{title} </about/teachers>`"
        is_shown = path.startswith("edutorch/") and path.endswith(".py")
        return f"{{source}}`{path}`" if is_shown else title

    return re.sub(r"\[([^\]]+)\]\(\.\./([^)#\s]+)[^)]*\)", link, text)


def write_all(path: Path, only: set[str]) -> list[str]:
    """Write every page into `path`; return what examples got wrong."""
    folder = Folder(path)
    wrong = write_ops(folder, only)
    if only:  # the pages written by hand lead to all of the others
        folder.write("index.md", "# edutorch\n\n```{toctree}\nreference/index\n```\n")
    else:
        wrong += write_classes(folder)
        write_sources(folder)
        copy_pages(folder)
    folder.sweep()
    return wrong


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="write the pages of these alone")
    options = parser.parse_args()
    wrong = write_all(options.folder, set(options.only))
    if wrong:
        sys.exit("\n\n".join(["examples that are not true:", *wrong]))


if __name__ == "__main__":
    main()
