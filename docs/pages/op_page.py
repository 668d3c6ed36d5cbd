"""The page of one function."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from edutorch.core.op import Op
from edutorch.viz import Drawing

from . import facts
from .docstring import (
    Docstring,
    code_fence,
    index_entry,
    paragraphs,
    parse_docstring,
    plain,
    section,
)
from .entries import TENSOR, Entry
from .example import Outcome, run
from .families import family_of
from .picture import html
from .source import Source, source_of

MOST_FORMULAS = 10

NO_ENGINE = (
    "There was no Graphviz when this page was built, so this is the graph as a table "
    "(`pip install edutorch[lab]` brings one)."
)


@dataclass
class Page:
    """The page of an entry. `outcome` runs its examples, once."""

    entry: Entry

    @cached_property
    def parts(self) -> Docstring:
        return parse_docstring(self.entry.doc)

    @cached_property
    def outcome(self) -> Outcome:
        entry = self.entry
        return run(entry.name, entry.doc, entry.module, entry.short)

    @cached_property
    def sources(self) -> list[Source]:
        return source_of(self.entry.written, self.entry.op)

    @cached_property
    def ops_inside(self) -> list[Op]:
        """The ops that the example of a composed function ran."""
        sketch = self.outcome.sketch
        if self.entry.op is not None:
            return []
        return list({call.op.name: call.op for call in sketch.shown(None)}.values())

    def text(self, used_by: dict[str, list[str]], addresses: dict[str, str]) -> str:
        """Return the page as Markdown.

        Args:
            used_by: for an op's name, the pages whose functions run it.
            addresses: for an op's name, its page.
        """
        chapter, title = family_of(self.entry.module)
        parts = [
            "---\norphan: true\n---",
            f"# {self.entry.name.removeprefix('inside.')}",
            f"{{doc}}`{plain(title)} <../families/{chapter}>`",
            self._objects(),
            code_fence(self._signature(), "python"),
            plain(self.parts.sentence),
            paragraphs(self.parts.body),
            *(section(name, lines) for name, lines in self.parts.sections),
            self._example(),
            self._forms(),
            self._derivative(addresses),
            self._facts(),
            self._picture(),
            self._used_by(used_by),
            self._source(),
        ]
        return "\n\n".join(part for part in parts if part) + "\n"

    def _objects(self) -> str:
        """Put each name into the index and in front in the search."""
        lines = []
        for name in [*self.entry.names, *self.entry.twins]:
            directive = "method" if name.startswith(f"{TENSOR}.") else "function"
            if isinstance(self.entry.value, property):
                directive = "property"
            lines.append(index_entry(directive, name))
        return "\n\n".join(lines)

    def _signature(self) -> str:
        entry = self.entry
        op = entry.op
        name = entry.names[0] if entry.names else entry.short
        if f"torch.{entry.name}" in entry.names:
            name = f"torch.{entry.name}"
        if isinstance(entry.value, property):
            return name
        return facts.signature(entry.value, name, op is not None and op.has_out)

    def _example(self) -> str:
        session = self.outcome.session.rstrip("\n")
        return f"## Example\n\n{code_fence(session, 'pycon')}" if session else ""

    def _forms(self) -> str:
        if not self.entry.public:
            return "This block is not called by its own name: other functions are made of it."
        return "## Forms\n\n" + "\n".join(facts.forms(self.entry))

    def _derivative(self, addresses: dict[str, str]) -> str:
        op = self.entry.op
        if op is not None and op.rules:
            return f"## Derivative\n\n{facts.derivatives(op)}\n\n{facts.meaning(op)}"
        if op is not None:
            return "## Derivative\n\nNone: the result does not change smoothly with the input."
        inside = [op for op in self.ops_inside if op.rules]
        if not inside:
            return ""
        rows = [
            f"| {{doc}}`{op.name} <{addresses[op.name]}>` | `{name}` | "
            f"${facts.formula(op.formulas[name])}$ |"
            for op in inside
            for name in op.rules
            if name in op.formulas
        ]
        left = len(rows) - MOST_FORMULAS
        more = f"\n\n… and {left} more, on the pages of these ops." if left > 0 else ""
        return (
            "## Derivative\n\nThat of the ops it is composed of. In the example these run:\n\n"
            "| op | input | its gradient |\n|:--|:--|:--|\n"
            + "\n".join(rows[:MOST_FORMULAS])
            + more
            + "\n\n$g$ is the gradient that reaches the op's result, $y$ that result, "
            "$x$ its first input."
        )

    def _facts(self) -> str:
        op = self.entry.op
        if op is None:
            return ""
        shapes, sketch = facts.shapes(op), self.outcome.sketch
        seen = any(call.is_view for call in sketch.shown(op))
        rows = [
            f"## Shapes\n\n{shapes}" if shapes else "",
            f"## Types\n\n{facts.types(op)}",
            f"## Memory\n\n{facts.memory(op, seen)}",
        ]
        return "\n\n".join(row for row in rows if row)

    def _picture(self) -> str:
        entry, sketch = self.entry, self.outcome.sketch
        drawing = sketch.drawing(entry.op)
        if drawing is not None:
            return f"## In a graph\n\n{_shown(drawing)}"
        if not self.outcome.session:
            return ""
        names = Counter(call.op.name for call in sketch.shown(entry.op))
        if not names:
            return "## In a graph\n\nThe example runs no op: nothing of it is in a graph."
        listed = ", ".join(f"{count} × `{name}`" for name, count in names.most_common())
        said = f"The example runs {names.total()} ops, too many for a picture: {listed}."
        return f"## In a graph\n\n{said}"

    def _used_by(self, used_by: dict[str, list[str]]) -> str:
        op = self.entry.op
        names = used_by.get(op.name, []) if op is not None and not self.entry.public else []
        links = facts.join_names(f"{{doc}}`{name} <{name}>`" for name in names)
        return f"## Used by\n\n{links}" if links else ""

    def _source(self) -> str:
        whole = "The whole op" if self.entry.op is not None else "All of it"
        parts = [
            f"{whole if index == 0 else 'And'}, from {{source}}`{source.path}:{source.first}`:\n\n"
            + code_fence(source.text, "python")
            for index, source in enumerate(self.sources)
        ]
        return "\n\n".join(["## Source", *parts]) if parts else ""


def _shown(drawing: Drawing) -> str:
    """Return a picture as Markdown; without a Graphviz, its table."""
    picture, drawn = html(drawing)
    if not drawn:
        return f"{code_fence(picture, 'text')}\n\n{NO_ENGINE}"
    figure = f'<div class="graph">\n{picture}\n</div>'
    return f"What the example runs.\n\n~~~~~~~~{{raw}} html\n{figure}\n~~~~~~~~"
