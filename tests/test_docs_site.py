"""The documentation: every public op can make its page, and the pages are built offline."""

from __future__ import annotations

import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

import edutorch
from docs.make_pages import inside_links
from docs.pages.docstring import paragraphs, parse_docstring, plain, section
from docs.pages.entries import NAMESPACES, TENSOR, entries, members
from docs.pages.facts import forms, formula, signature, types
from docs.pages.families import chapters_of_ops, family_of, titles
from docs.pages.op_page import Page
from docs.pages.source import source_of
from edutorch.core.op import REGISTRY
from edutorch.errors import missing_extra

ROOT = Path(__file__).resolve().parent.parent
ENTRIES = entries()

NO_EXAMPLE = {
    "eig": "removed from PyTorch: it only says what to call instead",
    "lstsq": "removed from PyTorch: it only says what to call instead",
    "matrix_rank": "removed from PyTorch: it only says what to call instead",
    "solve": "removed from PyTorch: it only says what to call instead",
    "symeig": "removed from PyTorch: it only says what to call instead",
    "load": "shown with `save`",
    "is_autocast_cpu_enabled": "an old name: shown with `is_autocast_enabled`",
    "set_autocast_cpu_enabled": "an old name: shown with `set_autocast_enabled`",
    "get_autocast_cpu_dtype": "an old name: shown with `get_autocast_dtype`",
    "get_autocast_gpu_dtype": "an old name: shown with `get_autocast_dtype`",
    "set_autocast_cpu_dtype": "an old name: shown with `set_autocast_dtype`",
    "set_autocast_gpu_dtype": "an old name: shown with `set_autocast_dtype`",
    "gru": "shown with `lstm`",
    "rnn_tanh": "shown with `lstm`",
    "rnn_relu": "shown with `lstm`",
}


def test_examples_of_an_absent_package_are_shown_as_written(monkeypatch):
    from docs.pages.example import run
    from edutorch.datasets import images, packages

    monkeypatch.setattr(packages, "find_spec", lambda package: None)
    outcome = run("load_digits", images.load_digits.__doc__, images.__name__, "load_digits")
    assert outcome.is_unchecked and outcome.wrong == []
    assert "(torch.Size([1797, 1, 8, 8])" in outcome.session


# Every page, without Sphinx ------------------------------------------------------------------


def test_every_public_function_has_a_page():
    named = {name for entry in ENTRIES.values() for name in (*entry.names, *entry.twins)}
    for namespace in (*NAMESPACES, TENSOR):
        assert {f"{namespace}.{name}" for name in members(namespace)} <= named
    ops = {entry.op.name for entry in ENTRIES.values() if entry.op is not None}
    assert set(REGISTRY) <= ops


def missing(name):
    """Yield what the page of an entry would lack."""
    entry = ENTRIES[name]
    parts = parse_docstring(entry.doc)
    needs_example = len(entry.names) > len(entry.methods)  # a sentence is enough for x.numel()
    if not parts.sentence:
        yield f"{name}: no sentence"
    if needs_example and name not in NO_EXAMPLE and not parts.has_example:
        yield f"{name}: no example"
    if family_of(entry.module)[0] not in titles():
        yield f"{name}: no chapter for {entry.module}"
    if not source_of(entry.written, entry.op):
        yield f"{name}: no source"
    if entry.public and not forms(entry):
        yield f"{name}: no form"
    if entry.op is not None:
        yield from (
            f"{name}: no formula for {rule}"
            for rule in entry.op.rules
            if not formula(entry.op.formulas.get(rule, ""))
        )
        if not types(entry.op):
            yield f"{name}: nothing about types"


def test_each_page_has_what_it_needs():
    assert [lack for name in ENTRIES for lack in missing(name)] == []


def test_each_file_of_ops_is_in_a_row_of_their_readme():
    """Its rows are the chapters of the reference."""
    files = {f"edutorch.ops.{path.stem}" for path in (ROOT / "edutorch" / "ops").glob("[a-z]*.py")}
    assert files == set(chapters_of_ops())


def test_a_page_says_everything():
    page = Page(ENTRIES["softplus"])
    text = page.text({}, {})
    assert page.outcome.wrong == []
    assert "torch.softplus(" in text and "beta: float = 1.0" in text
    assert ">>> softplus(tensor([-2.0, 0.0, 2.0]))\ntensor([0.1269, 0.6931, 2.1269])" in text
    assert r"| `input` | $g\,\sigma(\beta x)$ |" in text
    assert "- method: `x.softplus(…)`\n- in place: `x.softplus_(…)`" in text
    assert "It takes floating numbers; others are refused." in text
    assert re.search(r"@elementwise.*\ndef softplus\(", text) and "softplus.vjp(" in text


def test_an_alias_is_on_the_page_of_its_function():
    assert "multiply" not in ENTRIES
    assert {"torch.mul", "torch.multiply", "torch.Tensor.multiply"} <= set(ENTRIES["mul"].names)
    assert {"torch.Tensor.mul_", "torch.Tensor.multiply_"} <= set(ENTRIES["mul"].twins)


def test_a_composed_function_shows_the_derivatives_of_its_ops():
    page = Page(ENTRIES["std"])
    addresses = {entry.op.name: entry.name for entry in ENTRIES.values() if entry.op}
    text = page.text({}, addresses)
    assert re.search(r"\| \{doc\}`safe_sqrt <inside.safe_sqrt>` \| `input` \| \$\\frac", text)
    assert "{doc}`var <inside.var>`" in text


def test_without_a_graphviz_the_picture_is_a_table(monkeypatch):
    def refuse(*_):
        raise missing_extra("lab", "viz", "there is no Graphviz")

    monkeypatch.setattr("edutorch.viz.render.static.render", refuse)
    text = Page(ENTRIES["exp"]).text({}, {})
    assert "<svg" not in text
    assert "n1 exp" in text and "There was no Graphviz when this page was built" in text


def test_an_example_that_is_not_true_is_found():
    from docs.pages.example import run

    outcome = run("exp", ">>> exp(tensor(0.0))\ntensor(2.)", "edutorch.ops.elementwise", "exp")
    assert outcome.session == ">>> exp(tensor(0.0))\ntensor(1.)\n"
    assert "gives\ntensor(1.)\nwhere the docstring says\ntensor(2.)" in outcome.wrong[0]


def test_markup_in_a_docstring_stays_text():
    assert plain("a * b_c < `x * y` [1]") == r"a \* b\_c \< `x * y` \[1\]"
    assert paragraphs("Text:\n\n    y = x · 2") == "Text:\n\n```text\ny = x · 2\n```"
    lines = ("    dim: where.", "        And more.")
    assert section("Args", lines) == "**Arguments.**\n\n- `dim`: where. And more."


def test_links_into_the_repository_stay_in_the_site():
    text = "[modes](../edutorch/modes.py), [the rules](../CONTRIBUTING.md), [here](other.md)"
    assert inside_links(text) == "{source}`edutorch/modes.py`, the rules, [here](other.md)"


def test_a_long_signature_gets_a_line_for_each_argument():
    assert signature(edutorch.exp, "exp") == "exp(input: Tensor)"
    assert signature(edutorch.nn.functional.conv2d, "conv2d").count("\n") > 5


# Some pages, built ---------------------------------------------------------------------------

SOME = ("exp", "sum", "nn.functional.conv2d")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for needed in ("sphinx", "myst_nb", "furo", "latex2mathml"):
        pytest.importorskip(needed, reason="needs the extra `docs`")
    folder = tmp_path_factory.mktemp("site")
    _run("docs.make_pages", folder / "source", "--only", *SOME)
    options = ("-b", "html", "-c", ROOT / "docs", "-d", folder / "trees", "-q", "-W")
    _run("sphinx", *options, folder / "source", folder / "html")
    return folder / "html"


def _run(module, *arguments):
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", SOME)
def test_built_pages(site, name):
    page = (site / "reference" / "ops" / f"{name}.html").read_text(encoding="utf-8")
    text = unescape(re.sub(r"<[^>]+>", "", page))
    entry = ENTRIES[name]
    assert page.count("<math ") >= len(entry.op.formulas)
    assert f"def {entry.short}(" in text and ".vjp(" in text
    example = Page(entry).outcome.session
    assert example and example in text
    picture = page.partition('<div class="graph">')[2].partition("</div>")[0]
    if edutorch.viz.engines() and any(engine.available for engine in edutorch.viz.engines()):
        assert "<svg" in picture and f"output {entry.short}," in picture


def test_the_start_page_leads_to_the_pages(site):
    assert "reference/index.html" in (site / "index.html").read_text(encoding="utf-8")
    index = (site / "genindex.html").read_text(encoding="utf-8")
    assert all(f"reference/ops/{name}.html#torch." in index for name in SOME)
    search_index = (site / "searchindex.js").read_text(encoding="utf-8")
    assert "reference/ops/exp" in search_index


LOADS = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc\s*=\s*["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b[^>]*\bhref\s*=\s*["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|url\(\s*["']?((?:https?:)?//[^"')\s]+)|@import\s+["']((?:https?:)?//[^"']+)"""
    r"""|\b(?:fetch|importScripts|import)\(\s*["']((?:https?:)?//[^"']+)"""
)


def test_no_page_loads_anything_from_another_machine(site):
    assert LOADS.search('<script src="https://cdn.example/x.js">')
    for path in site.rglob("*"):
        if path.suffix in (".html", ".css", ".js"):
            match = LOADS.search(path.read_text(encoding="utf-8"))
            assert match is None, f"{path.name}: {match and match[0]}"
