"""`python -m edutorch graph`: a picture of a script's graph, without a notebook."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import pytest

TRAINS = """
    import sys
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(3, 4)
            self.second = nn.Linear(4, 1)

        def forward(self, x):
            return self.second(torch.relu(self.first(x)))

    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = net(torch.ones(2, 3)).pow(2).mean()
        loss.backward()
        optimizer.step()
    print("arguments", sys.argv[1:])
"""


@pytest.fixture
def graph(tmp_path: Path):
    """Write a script and run `python -m edutorch graph` on it."""

    def run(text: str, *options: str, before: tuple[str, ...] = ()):
        (tmp_path / "script.py").write_text(textwrap.dedent(text))
        command = [sys.executable, "-m", "edutorch", "graph", *before, "script.py", *options]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    return run


def test_a_table_without_a_file(graph):
    done = graph(TRAINS, "--lr", "0.1", "-x")
    assert done.returncode == 0, done.stderr
    assert "arguments ['--lr', '0.1', '-x']" in done.stdout
    head, *rows = done.stdout.splitlines()[1:]
    assert head.split() == ["node", "module", "shape", "value", "gradient", "from"]
    assert any("relu" in row for row in rows)
    assert any("first" in row and "weight" in row and "4×3 float32" in row for row in rows)
    assert any("loss = mean" in row for row in rows)


@pytest.mark.parametrize("place", ["before", "behind"])
def test_files(graph, tmp_path, place):
    def run(*options):
        done = (
            graph(TRAINS, before=options) if place == "before" else graph(TRAINS, *options, "more")
        )
        assert done.returncode == 0, done.stderr

    run("-o", "out.svg", "--open", "first")
    texts = {element.text for element in ElementTree.parse(tmp_path / "out.svg").iter()}
    assert {"relu", "weight"} <= texts
    if place == "before":
        run("-o", "out.png")
        assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
        run("--output", "out.html", "--both")
        page = (tmp_path / "out.html").read_text()
        assert page.lstrip().lower().startswith("<!doctype html") and "relu" in page
    else:
        run("--output=out.dot", "--backward")
        assert (tmp_path / "out.dot").read_text().startswith("digraph")


def test_options_of_the_script_behind_two_dashes(graph):
    done = graph("import sys; print(sys.argv[1:])", "--", "-o", "x.gif")
    assert "['-o', 'x.gif']" in done.stdout
    assert done.returncode == 1 and "nothing was recorded" in done.stderr


def test_what_has_no_gradient_and_several_results_are_drawn(graph):
    text = "import torch; x = torch.tensor([1, 2]); y = x + 1; z = x > 1"
    done = graph(text)
    assert done.returncode == 0
    assert "y = add" in done.stdout and "z = gt" in done.stdout
    done = graph(text, "--backward")
    assert done.returncode == 1
    assert "--backward: nothing that has a gradient was computed" in done.stderr


def test_an_error_leaves_the_graph_as_far_as_it_got(graph, tmp_path):
    text = """
        import torch
        w = torch.ones(3, requires_grad=True)
        h = (w * 2).tanh()
        h @ torch.ones(4)
    """
    done = graph(text, "-o", "out.svg")
    assert done.returncode == 1
    assert "h @ torch.ones(4)" in done.stderr and "Traceback" in done.stderr
    assert "cli/run.py" not in done.stderr
    texts = {element.text for element in ElementTree.parse(tmp_path / "out.svg").iter()}
    assert {"w", "h = tanh"} <= texts


def test_an_exit_code_is_kept(graph):
    text = "import torch, sys; (torch.ones(1, requires_grad=True) * 2).sum().backward(); "
    done = graph(text + "sys.exit(7)")
    assert done.returncode == 7 and "mul" in done.stdout
    done = graph(text + "sys.exit('sorry')")
    assert done.returncode == 1 and "sorry" in done.stderr and "mul" in done.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-o", "out.gif"), "cannot tell the format of 'out.gif'; use a name that ends in .svg"),
        (("-o", "nowhere/out.svg"), "there is no folder 'nowhere'"),
        (("--backward", "--both"), "not allowed with"),
        (("--open", "third"), "--open: viz.draw: there is no group called 'third'"),
    ],
)
def test_mistakes_are_said_in_words(graph, options, said):
    done = graph(TRAINS, *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_script_that_is_not_there(tmp_path):
    command = [sys.executable, "-m", "edutorch", "graph", "missing.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2 and "there is no file 'missing.py'" in done.stderr
