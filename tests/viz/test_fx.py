"""Pictures of captured graphs and compiled functions."""

from __future__ import annotations

import edutorch as torch
from edutorch import fx, nn, viz


def test_a_captured_step_is_drawn_with_its_phases():
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    drawing = viz.draw(fx.capture(step, torch.ones(3, 2)))
    labels = {node.label for node in drawing.whole.graph.nodes}
    assert {"x", "linear", "square", "lr"} <= labels
    assert "<svg" in drawing.svg
    kind_of = {node.label: node.kind for node in drawing.whole.graph.nodes}
    assert kind_of["x"] == "leaf"
    lines = {node.label: node.line for node in drawing.whole.graph.nodes}
    assert lines["linear"].startswith("test_fx.py:")


def test_before_and_after_a_pass():
    graph = fx.capture(lambda x: (x * 1).exp() + x.exp(), torch.ones(2)).graph
    before, after = (viz.draw(graph) for graph in (graph, fx.passes.standard(graph)))
    count = [len(drawing.whole.graph.nodes) for drawing in (before, after)]
    assert count == [5, 3]


def test_compiled_functions_and_modules_are_drawn():
    function = torch.compile(lambda x: x * 2 + 1, backend="aot_eager")
    function(torch.ones(2))
    assert [n.label for n in viz.draw(function).whole.graph.nodes] == ["x", "mul", "add"]
    model = torch.compile(nn.Sequential(nn.Linear(2, 2)), backend="aot_eager")
    model(torch.ones(2))
    assert "linear" in {n.label for n in viz.draw(model).whole.graph.nodes}
    assert "linear" in {n.label for n in viz.draw(model, torch.ones(2)).whole.graph.nodes}


def test_symbolic_graphs_are_drawn():
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    assert [n.label for n in viz.draw(traced.graph).whole.graph.nodes] == ["input", "0", "1"]


def test_an_exported_program_is_drawn_with_its_sizes_as_symbols():
    batch = torch.export.Dim("batch", max=8)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 2))
    program = torch.export.export(
        model, (torch.ones(2, 3, 2),), dynamic_shapes={"input": {0: batch}}
    )
    table = viz.draw(program.graph).table()
    assert "batch×3×2 float32" in table and "batch×2 float32" in table
