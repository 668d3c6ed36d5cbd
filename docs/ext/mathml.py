"""Formulas as MathML, which browsers draw themselves: no script, no font, no network."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx


def mathml(latex: str, display: str) -> str:
    """Return a formula as a `<math>` element that says its LaTeX to who cannot see it.

    Args:
        display: "inline", or "block" for a line of its own.
    """
    made = _spaced(convert(latex, display=display))
    label = f'<math aria-label="{_attribute(latex)}" displaystyle="true" '
    return made.replace("<math ", label, 1)


NAME = r"<mi>(?:arg|cos|cosh|det|exp|ln|log|max|min|sin|sinh|tan|tanh)</mi>"
SPACE = '<mspace width="0.17em"/>'


def _spaced(text: str) -> str:
    """Put a little space around names such as sin, as TeX does, and make primes primes."""
    text = text.replace("<mi>&#x02032;</mi>", "<mo>&#x02032;</mo>")  # f'
    text = re.sub(rf"(</(?:mi|mn|msup|msub|mfrac|msqrt)>)({NAME})", rf"\1{SPACE}\2", text)
    return re.sub(rf"({NAME})(?=<m(?:i|n|sup|sub|frac|sqrt)\b)", rf"\1{SPACE}", text)


def _attribute(text: str) -> str:
    for mark, written in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(mark, written)
    return text


def visit_inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="formula">{mathml(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
