"""Changing numbers in a real page: by mouse, by finger's events, by keys; undo; the wave."""

from __future__ import annotations

from typing import Any

import pytest

import edutorch
from edutorch.viz import touch, toy
from tests.browser.bench import Bench
from tests.browser.lab import Lab, appear, run_all, write_notebook

pytestmark = pytest.mark.browser

VALUES = "() => [...document.querySelectorAll('g.node > .value')].map((text) => text.textContent)"


def neuron(w: Any, x: Any, b: Any) -> Any:
    return (w * x + b).tanh()


def play_neuron() -> Any:
    return touch(neuron, w=0.5, x=edutorch.tensor([1.0, -2.0]), b=0.25)


@pytest.fixture
def still(page: Any) -> Any:
    """A page of somebody who wants no motion."""
    page.emulate_media(reduced_motion="reduce")
    return page


def test_a_field_changes_the_graph(still: Any) -> None:
    bench = Bench(still).open(play_neuron())
    field = still.get_by_role("textbox", name="w", exact=True)
    assert field.input_value() == "0.5"
    assert still.evaluate(VALUES)[0] == "value 0.5"
    field.fill("2")
    field.press("Enter")
    [sent] = bench.pump()
    assert (sent["name"], sent["to"], sent["drag"]) == ("w", "2", 0)
    assert still.evaluate(VALUES)[0] == "value 2"
    assert still.locator(".edutorch-touch output").first.inner_text() == "result a tensor of 2"
    field.fill("nonsense")
    field.press("Enter")
    bench.pump()
    assert "cannot write 'nonsense' into 'w'" in still.get_by_role("alert").inner_text()
    assert still.evaluate(VALUES)[0] == "value 2"
    bench.screenshot("touch-error")
    assert bench.errors == []


def test_keys_nudge_and_undo(still: Any) -> None:
    bench = Bench(still).open(play_neuron())
    field = still.get_by_role("textbox", name="x[1]", exact=True)
    field.focus()
    still.keyboard.press("ArrowUp")
    still.keyboard.press("ArrowUp")
    bench.pump()
    high = float(field.input_value())
    assert high > -2
    slider = still.get_by_role("slider", name="w, slider")
    slider.focus()
    still.keyboard.press("ArrowRight")
    bench.pump()
    assert still.evaluate(VALUES)[0] != "value 0.5"
    for _ in range(2):
        still.keyboard.press("Control+z")
        bench.pump()
    assert float(field.input_value()) < high
    still.get_by_role("button", name="Undo the last change").click()
    bench.pump()
    assert field.input_value() == "-2"
    assert still.get_by_role("button", name="Undo the last change").is_disabled()
    field.focus()
    still.keyboard.press("Control+Shift+z")
    still.keyboard.press("Control+y")
    bench.pump()
    assert float(field.input_value()) == high
    # what is being written is the browser's to undo
    field.press_sequentially("7")
    still.keyboard.press("Control+z")
    assert bench.pump() == []


def test_a_slider_is_dragged_and_undone_at_once(still: Any) -> None:
    bench = Bench(still).open(play_neuron())
    slider = still.get_by_role("slider", name="w, slider")
    box = slider.bounding_box()
    still.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    still.mouse.down()
    for part in (0.6, 0.7, 0.8):
        still.mouse.move(box["x"] + box["width"] * part, box["y"] + box["height"] / 2)
        bench.pump()
    still.mouse.up()
    bench.pump()
    moved = still.evaluate(VALUES)[0]
    assert moved != "value 0.5"
    assert bench.shown.part.editor.done[-1].before == 0.5
    still.get_by_role("button", name="Undo the last change").click()
    bench.pump()
    assert still.evaluate(VALUES)[0] == "value 0.5"


def test_a_change_travels_through_the_graph(page: Any) -> None:
    bench = Bench(page).open(play_neuron())
    page.evaluate(
        """() => {
          window.seen = [];
          const look = () => {
            const names = [...document.querySelectorAll("g.node > .name")];
            const order = ["w", "x", "mul", "b", "add", "tanh"];
            names.sort((a, b) => order.indexOf(a.textContent) - order.indexOf(b.textContent));
            const rows = names.flatMap((name) =>
              [...name.parentElement.querySelectorAll(":is(.value, .gradient)")]);
            const now = [...rows].map((each) => each.textContent);
            if (JSON.stringify(now) !== JSON.stringify(window.seen.at(-1))) window.seen.push(now);
            requestAnimationFrame(look);
          };
          look();
        }"""
    )
    field = page.get_by_role("textbox", name="b", exact=True)
    field.fill("-1")
    field.press("Enter")
    bench.pump()
    page.wait_for_function(
        "() => document.querySelectorAll('g.node').length && window.seen.length >= 4"
    )
    page.wait_for_timeout(1500)
    seen = page.evaluate("() => window.seen")
    first, last = seen[0], seen[-1]
    changed = [at for at in range(len(first)) if first[at] != last[at]]
    when = {at: next(i for i, row in enumerate(seen) if row[at] == last[at]) for at in changed}
    texts = page.evaluate(VALUES)
    assert len(set(when.values())) >= 3, "it came at once"
    values = [at for at in changed if first[at].startswith(("value", "mean"))]
    gradients = [at for at in changed if first[at].startswith("grad")]
    assert [when[at] for at in values] == sorted(when[at] for at in values)
    assert [when[at] for at in gradients] == sorted((when[at] for at in gradients), reverse=True)
    assert max(when[at] for at in values) <= min(when[at] for at in gradients)
    assert texts[-1].startswith("value")


def test_points_are_dragged_by_mouse_and_keys(still: Any) -> None:
    bench = Bench(still).open(toy("line"))
    bench.screenshot("toy-line")
    point = still.locator(".edutorch-toy .point").nth(3)
    before = bench.shown.points[3].copy()
    box = point.bounding_box()
    surface = still.locator(".edutorch-toy .band").nth(4)
    hills = surface.get_attribute("d")
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    still.mouse.move(x, y)
    still.mouse.down()
    for shift in (20, 40, 60):
        still.mouse.move(x, y - shift)
        bench.pump()
    still.mouse.up()
    assert bench.shown.points[3][1] > before[1] + 0.3
    assert surface.get_attribute("d") != hills
    still.keyboard.press("Control+z")
    bench.pump()
    assert bench.shown.points[3].tolist() == before.tolist()
    point.focus()
    still.keyboard.press("ArrowUp")
    bench.pump()
    assert bench.shown.points[3][1] == pytest.approx(before[1] + 0.1, abs=1e-3)
    label = point.get_attribute("aria-label")
    assert label.startswith("point 3: x")
    still.get_by_role("button", name="Let the optimizer take one step").click()
    bench.pump()
    assert bench.shown.steps == 1
    assert still.locator(".edutorch-toy .path").get_attribute("d") != ""
    assert still.locator(".edutorch-toy .arrow").get_attribute("d") != ""
    here = still.get_by_role("button", name="the parameters")
    here.focus()
    still.keyboard.press("Shift+ArrowRight")
    bench.pump()
    assert bench.shown.path == [bench.shown.at]
    assert bench.errors == []


def test_a_run_goes_on_until_it_is_stopped(still: Any) -> None:
    bench = Bench(still).open(toy("moons"))
    run = still.get_by_role("button", name="Let the optimizer take step after step")
    run.click()
    for _ in range(30):
        still.wait_for_timeout(60)
        bench.pump()
        if bench.shown.steps >= 4:
            break
    assert bench.shown.steps >= 4
    bench.screenshot("toy-moons")
    still.get_by_role("button", name="Stop").click()
    bench.pump()
    steps = bench.shown.steps
    still.wait_for_timeout(400)
    bench.pump()
    assert bench.shown.steps == steps


def test_in_a_notebook(lab: Lab, page: Any) -> None:
    write_notebook(
        lab.root / "touch.ipynb",
        "import edutorch\nfrom edutorch import viz\n"
        "play = viz.touch(lambda w, x, b: (w * x + b).tanh(), w=0.5, x=2.0, b=-0.5)\nplay",
        "print('the', 'end')",
    )
    lab.open(page, "touch.ipynb")
    run_all(page)
    appear(page, page.get_by_text("the end", exact=True))
    field = page.get_by_role("textbox", name="w", exact=True)
    field.fill("3")
    field.press("Enter")
    page.wait_for_function(f"() => ({VALUES})()[0] === 'value 3'")
    field.press("Control+z")  # JupyterLab does not take it for its own
    page.wait_for_function(f"() => ({VALUES})()[0] === 'value 0.5'")
    page.wait_for_timeout(1200)
