"""Draws the map of the course: `python -m docs.course_map` writes docs/_static/course_map.svg.

An arrow leads from a lesson to one that builds on it. What follows from other arrows is left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from edutorch.viz.render.graphviz import render

SVG = Path(__file__).resolve().parent / "_static" / "course_map.svg"


class Entry(NamedTuple):
    """A lesson on the map.

    Attributes:
        part: of the course, from 1 to 6.
        needs: the numbers of the lessons that it builds on.
    """

    title: str
    part: int
    needs: tuple[str, ...] = ()
    is_later: bool = False


LESSONS = {
    "00": Entry("Tour", 1),
    "01": Entry("Autograd", 1, ("00",)),
    "02": Entry("Backprop", 1, ("01",)),
    "03": Entry("Shapes", 1, ("02",)),
    "04": Entry("First network", 1, ("02",)),
    "05": Entry("Reading graphs", 2, ("04",)),
    "06": Entry("Modules", 2, ("04",)),
    "07": Entry("New data", 2, ("06",)),
    "08": Entry("Optimizers", 2, ("04",)),
    "09": Entry("Data loading", 2, ("04",)),
    "10": Entry("CNN", 3, ("06",)),
    "13": Entry("ResNet", 3, ("07", "10")),
    "14": Entry("U-Net", 3, ("10",)),
    "15": Entry("VAE", 3, ("10",)),
    "16": Entry("GAN", 3, ("05", "10")),
    "17": Entry("Diffusion", 3, ("15",)),
    "11": Entry("LSTM", 4, ("03", "06")),
    "18": Entry("Dates", 4, ("11",)),
    "12": Entry("GPT", 4, ("03", "06")),
    "19": Entry("BERT", 4, ("12",)),
    "20": Entry("Reinforcement", 5, ("06",)),
    "21": Entry("Fast", 6, ("08", "10")),
    "22": Entry("Many", 6, ("09", "21")),
    "23": Entry("Out", 6, ("21",)),
}
"""In the order of the course."""

# Fill and border of each part, light and dark; the letters on both fills have a contrast above 7.
COLOURS = (
    ("#E3EEFB", "#2F6DB5", "#1B3350", "#6FA8E8"),
    ("#E2F3E8", "#2E8555", "#183C29", "#66BF8D"),
    ("#FCEBDD", "#B8651B", "#4A2E14", "#E8A063"),
    ("#EFE6FA", "#7A4BB5", "#35234D", "#B290E0"),
    ("#FBE3EA", "#B03A62", "#4A1C2C", "#E07F9F"),
    ("#E8EAEE", "#5A6472", "#30363E", "#A3ADBA"),
)
PARTS = ("From a number to a network", "The craft", "Seeing and making", "Reading and writing",
         "Acting", "Fast, many, out")  # fmt: skip
INK, PALE, PAPER = ("#1C1F24", "#EDEFF2"), ("#6B7480", "#98A2AE"), ("#FFFFFF", "#15181C")


def dot_text() -> str:
    """Return the map in Graphviz's language."""
    lines = [
        'digraph "course" {',
        '  rankdir=LR; nodesep=0.14; ranksep=0.25; pad=0.2; bgcolor="transparent"',
        '  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=12,'
        " height=0.36, width=1.65, fixedsize=true]",
        "  edge [arrowsize=0.6]",
    ]
    for number, entry in LESSONS.items():
        looks = f"part{entry.part}" + (" later" if entry.is_later else "")
        lines.append(f'  "{number}" [label="{number}  {entry.title}", class="{looks}"]')
    lines += [f'  "{need}" -> "{number}"' for need, number in arrows()]
    return "\n".join([*lines, "}"])


def arrows() -> list[tuple[str, str]]:
    """Return (before, after) of each arrow."""
    return [(need, number) for number, entry in LESSONS.items() for need in entry.needs]


def style() -> str:
    """Return the style sheet: one look by day, one by night."""
    light, dark = ["<![CDATA["], []
    for rules, night in ((light, 0), (dark, 1)):
        rules += [
            f".paper {{ fill: {PAPER[night]} }}",
            f"text {{ fill: {INK[night]}; font-family: system-ui, Helvetica, Arial, sans-serif }}",
            f".edge path {{ stroke: {PALE[night]} }}",
            f".edge polygon {{ fill: {PALE[night]}; stroke: {PALE[night]} }}",
        ]
        for part, colours in enumerate(COLOURS, start=1):
            fill, border = colours[2 * night : 2 * night + 2]
            rules.append(f".part{part} path {{ fill: {fill}; stroke: {border} }}")
    light.append(".later path { stroke-dasharray: 4 3; fill-opacity: 0.35 }")
    return "\n".join([*light, "@media (prefers-color-scheme: dark) {", *dark, "}", "]]>"])


def legend(width: float, top: float) -> str:
    """Return a row of the parts in their colours, over the whole width."""
    step = width / 20
    left, texts = step / 2, []
    for part, name in enumerate(PARTS, start=1):
        texts.append(
            f'<g class="part{part}"><path d="M{left:.0f},{top:.0f}h10v10h-10z"/>'
            f'<text x="{left + 15:.0f}" y="{top + 9:.0f}" font-size="11">{name}</text></g>'
        )
        left += 24 + 6.1 * len(name) + step / 2
    return "\n".join(texts)


def draw() -> str:
    """Return the map as SVG."""
    svg = render(dot_text(), "svg").decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<!--.*?-->\n?", "", svg, flags=re.DOTALL)
    box = re.search(r'viewBox="0.00 0.00 ([\d.]+) ([\d.]+)"', svg)
    assert box is not None
    width, height = float(box[1]), float(box[2])
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height + 24:.0f}" '
        f'role="img" aria-label="The map of the course">\n<style>{style()}</style>\n'
        '<rect class="paper" width="100%" height="100%" rx="6"/>\n'
    )
    body = svg[svg.index("<g ") : svg.rindex("</svg>")]
    return f"{head}{body}{legend(width, height)}\n</svg>\n"


def main() -> None:
    """Write the file."""
    SVG.write_text(draw(), encoding="utf-8")
    print(f"{SVG}: {SVG.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
