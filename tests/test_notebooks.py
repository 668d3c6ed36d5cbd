"""Every notebook runs from top to bottom, as a student runs it, and leaves its pictures.

One test per notebook, so that pytest-xdist can spread them. In the same run each exercise
is solved with the solution that the notebook gives, and its check has to notice: it says
"✗ 02.softmax" and a hint before, and "✓ 02.softmax: right" afterwards.
"""

from __future__ import annotations

import os
import re
import sys
from base64 import b64decode
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from edutorch.viz.render.style import ALARM

pytestmark = pytest.mark.notebooks

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").rglob("*.ipynb"))
HANG = 400  # seconds for one cell; a lesson as a whole takes a tenth of it

# What a lesson promises: patterns that its printed text must contain.
PROMISES = {
    "05_reading_graphs": [
        r"loss: inf",
        r"loss: 3.0 gradient: tensor\(\[   nan, 0.5000, 0.2500\]\)",
        r"gradient: tensor\(\[0.0000, 0.5000, 0.2500\]\)\n✓ No trouble found.",
        r"`0\.weight`, `0\.bias`, `2\.weight` had a gradient of exactly 0 in all of the last",
        r"The gradients of earlier steps are still there and are added to: 0\.weight\.grad was not "
        r"cleared .*\n  at .*loss\.backward\(\)\n  → Call optimizer\.zero_grad\(\) before backward",
        r"\d+ graphs of earlier computations, with \d+ ops, kept alive by `losses`\.\n"
        r"  at .*\n  → Keep numbers: losses\.append\(loss\.item\(\)\)",  # the live view
        r"79 graphs of earlier computations, with \d+ ops and .*, kept alive by `losses`",
        r"linear: axis k is 8 in `input` but 4 in `weight`",
    ],
    "01_scalar_autograd": [
        r"a\.grad = 4\.0  b\.grad = 2\.0",
        r"yours     (.*)\nedutorch  \1\n",
        r"x\.grad = 18 \+ 6 = 24",
    ],
    "02_backprop_by_hand": [
        r"(?s)(agrees: True.*){4}",
        r"gradcheck: True",
        r"backward     = 0\.6115",
        r"h\.grad = 7",
        r"norm of edges\.weight\.grad: (\S+) in the picture, \1 in the network",
    ],
    "06_modules_and_state_dict": [
        r"cannot assign Linear before Module.__init__\(\) call",
        r"is damaged: the checksum is wrong",
        r"size mismatch for head.weight",
        r"the body has not moved: True",
    ],
    "10_a_cnn_that_sees": [r"instead of edges, a linear layer would have 66,560"],
    "11_an_lstm": [r"rows at each step: \[3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 1\]"],
    "12_a_small_gpt": [r"place 9 changed: \.{9}x\n", r"place 0 changed: x"],
}

WARNINGS = {"05_reading_graphs": ["NonFiniteGradientWarning: SqrtBackward0"]}
"""What a notebook warns of, where that is its subject."""


def tags(cell: Any) -> list[str]:
    return cell.metadata.get("tags", [])


def with_solutions(notebook: Any, new_code_cell: Any) -> Any:
    """Behind each solution, run it and repeat the check above it."""
    cells, check = [], None
    for cell in notebook.cells:
        cells.append(cell)
        if "check" in tags(cell):
            check = cell
        if "solution" in tags(cell):
            code = re.search(r"```python\n(.*?)```", cell.source, re.DOTALL)
            assert code and check, "a solution is Python code, and stands behind its check"
            again = {"tags": ["check-of-solution"]}
            cells += [new_code_cell(code[1]), new_code_cell(check.source, metadata=again)]
    notebook.cells = cells
    return notebook


def without_waiting(notebook: Any) -> Any:
    """Hold no live view to a pace for eyes: no page is here to be watched."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = re.sub(r"steps_per_second=\d+", "steps_per_second=10_000", cell.source)
    return notebook


def execute(path: Path) -> Any:
    """Run a notebook in a kernel of this very Python and return it with its outputs."""
    nbformat = pytest.importorskip("nbformat", reason="needs the extra `test`")
    nbclient = pytest.importorskip("nbclient", reason="needs the extra `test`")
    pytest.importorskip("ipykernel", reason="needs the extra `lab`")
    notebook = without_waiting(nbformat.read(path, as_version=4))
    with_solutions(notebook, nbformat.v4.new_code_cell)
    client = nbclient.NotebookClient(
        notebook,
        kernel_name="python3",  # of the interpreter that runs the tests
        timeout=HANG,
        resources={"metadata": {"path": str(path.parent)}},
    )
    # Several notebooks run at a time: threads that wait for a processor would slow all down.
    client.execute(env=os.environ | {"OPENBLAS_NUM_THREADS": "1"})
    return notebook


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def printed(outputs: list[Any]) -> str:
    return "".join(output["text"] for output in outputs if output["output_type"] == "stream")


def errors_of(outputs: list[Any]) -> str:
    return "".join(output["text"] for output in outputs if output.get("name") == "stderr")


def shown(outputs: list[Any]) -> list[Any]:
    return [output["data"] for output in outputs if "data" in output]


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_committed_without_outputs(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="needs the extra `test`")
    assert not outputs(nbformat.read(path, as_version=4))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_teaches_what_it_promises(path: Path) -> None:
    notebook = execute(path)
    exercises_can_be_solved(notebook)
    notebook.cells = [cell for cell in notebook.cells if not is_check(cell)]
    cell_outputs = outputs(notebook)
    warned = re.findall(r"\w*Warning\b:? ?\w*", errors_of(cell_outputs))
    assert warned == WARNINGS.get(path.stem, [])
    assert not any(
        "application/vnd.jupyter.widget-view+json" in data for data in shown(cell_outputs)
    )
    for promise in PROMISES.get(path.stem, []):
        assert re.search(promise, printed(cell_outputs)), promise
    special = SPECIAL.get(path.stem[:2])
    if special is not None:
        special(cell_outputs)


def is_check(cell: Any) -> bool:
    return not {"check", "check-of-solution"}.isdisjoint(tags(cell))


def exercises_can_be_solved(notebook: Any) -> None:
    for cell in filter(is_check, notebook.cells):
        id = re.fullmatch(r'\w+\.check\("(.*)"\)', cell.source)
        assert id, cell.source
        wrong, right = f"✗ {id[1]}, attempt 1: ", f"✓ {id[1]}: right, "
        (output,) = cell.outputs
        sentence = wrong if "check" in tags(cell) else right
        assert output["data"]["text/plain"].startswith(sentence), output["data"]["text/plain"]
        assert sentence in unescape(output["data"]["text/html"])


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


def tour(cell_outputs: list[Any]) -> None:
    """The gradient is 8, the graph is drawn, the digits are read, a picture stays."""
    first, second, network = pictures_of(cell_outputs)
    for words in (first, second):
        assert {"x", "pow", "mul", "add", "y = add", "1"} <= set(words) and words.count("2") == 2
        assert not {"other", "exponent", "data"} & set(words)
    assert {"images", "targets"} <= set(network), "the inputs have the names of the loop"
    assert not {"data", "other", "getitem"} & set(network)
    assert ends_with_step(cell_outputs, 264), "12 epochs of 22 batches"
    assert "tensor(8.)" in [data.get("text/plain", "") for data in shown(cell_outputs)]
    assert drawn_by_graphviz(cell_outputs) == 3, "one of y, two that live views leave"
    assert percent(r"([\d.]+)% of \d+ new digits", cell_outputs) > 95


def by_hand(cell_outputs: list[Any]) -> None:
    """No line of a table wraps at the width of a notebook, and names are those of the network."""
    assert max(map(len, printed(cell_outputs).splitlines())) <= 100, "as many as JupyterLab shows"
    network = pictures_of(cell_outputs)[-1]
    assert {"edges · Conv2d", "votes · Linear", "images", "labels"} <= set(network)
    assert drawn_by_graphviz(cell_outputs) == 4


def reading(cell_outputs: list[Any]) -> None:
    """Each report says its sentence above its picture; a failed layer is in its own frame."""
    reports = [
        data for data in shown(cell_outputs) if 'label="trouble"' in data.get("text/html", "")
    ]
    texts = [data["text/plain"] for data in reports]
    for sentence in (
        "The first Inf is made by exp: exp of 100",
        "The first NaN in a gradient is made by the rule of sqrt: the slope of sqrt at 0",
        "`first.weight`, `first.bias` get no gradient: the chain is cut by detach()",
    ):
        assert [text for text in texts if sentence in text], sentence
    (failed,) = [data for data in reports if "✗ linear failed" in data["text/plain"]]
    picture = re.search(r"data:image/svg\+xml;base64,([^\"]*)", failed["text/html"])
    assert picture, "the report has a drawing"
    words = words_of(b64decode(picture[1]).decode())
    assert {"✗ linear", "32×8 with 2×4 with 2"} <= set(words)
    assert [word for word in words if word.endswith("2 · Linear")], "the layer has a frame"
    assert re.search(r"✗ linear +\S*2 +32×8", failed["text/plain"]), "and the box is in it"


def modules(cell_outputs: list[Any]) -> None:
    assert drawn_by_graphviz(cell_outputs) == 3, "the reader, the live view, the frozen one"
    assert percent(r"trained: ([\d.]+)% of digits it has never seen", cell_outputs) > 93


def optimizers(cell_outputs: list[Any]) -> None:
    """The film is small, and asks nothing of any other machine; toys leave pictures."""
    assert drawn_by_graphviz(cell_outputs) == 2, "two live views"
    for words in ("toy line: step 20", "loss landscape, from"):
        assert [data for data in shown(cell_outputs) if words in data.get("text/plain", "")], words
    films = [
        data["text/html"]
        for data in shown(cell_outputs)
        if "_anim_img" in data.get("text/html", "")
    ]
    assert len(films) == 1 and len(films[0]) < 2_000_000
    assert "data:image/jpeg;base64" in films[0]
    assert "http" not in re.sub(r"base64,[^\"]*", "", films[0])


def loading(cell_outputs: list[Any]) -> None:
    if sys.platform != "linux":
        pytest.skip("its workers are forked from the notebook")
    for words in (
        "sample = 42 of the batch",
        'of the cell: raise ValueError("the picture is empty")',
        "is killed by signal: SIGKILL",
        "two epochs differ:      True",
        "two runs are the same:  True",
    ):
        assert words in printed(cell_outputs)
    texts = [data.get("text/plain", "") for data in shown(cell_outputs)]
    assert len([data for data in shown(cell_outputs) if "image/png" in data]) == 5
    assert "True" in texts, "the order is the same with and without workers"
    assert "[[0, 2, 4, 6], [1, 3, 5, 7]]" in texts
    assert texts[-1] == "[]", "no process is left"


def convolutions(cell_outputs: list[Any]) -> None:
    assert drawn_by_graphviz(cell_outputs) == 1
    assert percent(r"([\d.]+)% of 397 digits it has never seen", cell_outputs) > 95


def recurrence(cell_outputs: list[Any]) -> None:
    assert drawn_by_graphviz(cell_outputs) == 2
    match = re.search(r"words never seen: ([\d.]+), baseline ([\d.]+)", printed(cell_outputs))
    assert match and float(match[1]) < 0.8 * float(match[2])


def language(cell_outputs: list[Any]) -> None:
    """The loss on text it has not seen is far below the marks of section 1; it writes words."""
    assert drawn_by_graphviz(cell_outputs) == 3, "the attention, the small model, the GPT"
    pictures = [data["image/svg+xml"] for data in shown(cell_outputs) if "image/svg+xml" in data]
    assert not [picture for picture in pictures if ALARM in picture], "a mask is no trouble"
    texts = [data.get("text/plain", "") for data in shown(cell_outputs)]
    assert not [text for text in texts if "✗" in text and not text.startswith("✗ 12.")]
    assert ends_with_step(cell_outputs, 90) and ends_with_step(cell_outputs, 900)
    attention, small, gpt = pictures_of(cell_outputs)
    assert {"inputs", "targets", "masked_fill", "softmax", "letter · Embedding"} <= set(small)
    assert not {"getitem", "unbind", "other"} & {*attention, *small}
    assert [label for label in gpt if label.startswith("blocks")], "folded: blocks are boxes"
    assert len(boxes_of(pictures[1])) <= 40 and len(boxes_of(pictures[2])) <= 40
    assert percent(r"temperature 0.3, top_k None: (\d+)% are words", cell_outputs) > 85
    assert percent(r"temperature 0.5, top_k None: (\d+)% are words", cell_outputs) > 75
    marks = re.search(r"letters alone ([\d.]+), pairs ([\d.]+)", printed(cell_outputs))
    reached = percent(r"on unseen text: ([\d.]+)", cell_outputs)
    assert marks and reached < float(marks[1]) - 0.7 and reached < float(marks[2])


SPECIAL = {
    "00": tour, "02": by_hand, "05": reading, "06": modules, "08": optimizers, "09": loading,
    "10": convolutions, "11": recurrence, "12": language,
}  # fmt: skip
