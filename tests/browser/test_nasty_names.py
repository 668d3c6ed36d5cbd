"""Names come from user code: whatever they hold, the page shows it and runs nothing."""

from __future__ import annotations

from typing import Any

import pytest

from edutorch.viz import Drawing, touch
from edutorch.viz.explore.touch import Explorer
from tests.browser.bench import Bench
from tests.browser.lab import Lab, appear, run_all, write_notebook
from tests.viz.golden import NASTY, nasty

pytestmark = pytest.mark.browser

ATTACKS = (
    '<img src=x onerror="hacked=1">',
    '"><script>hacked=1</script>',
    "<svg onload=hacked=1>",
    "${window['hacked']=1}",
)
CELL = """
import edutorch as torch
from edutorch import nn, viz

image, script, svg, template = {attacks!r}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.add_module(image, nn.Linear(2, 2))
        self.register_parameter(script, nn.Parameter(torch.ones(2)))

    def forward(self, x):
        return getattr(self, image)(x) * getattr(self, script)

Net.__name__ = svg
net = Net()
with viz.live(net, keep=True) as view:
    for step in range(3):
        loss = net(torch.ones(1, 2)).sum()
        loss.backward()
        view.log(**{{template: float(step), image: 1.0}})
"""


def test_nothing_in_a_name_is_run(lab: Lab, page: Any) -> None:
    cells = (CELL.format(attacks=ATTACKS), "viz.draw(loss)", "print('the', 'end')")
    write_notebook(lab.root / "nasty.ipynb", *cells)
    lab.open(page, "nasty.ipynb")
    run_all(page)
    appear(page, page.get_by_text("the end", exact=True))

    view = page.locator(".edutorch-live").first
    view.locator(".state[data-state=finished]").wait_for()
    shown = view.evaluate("element => element.textContent")
    assert ATTACKS[0][:10] in shown  # the module's frame, shortened
    assert ATTACKS[3] in shown  # a curve's name, whole
    for node in view.locator("g.node").all():
        node.focus()  # the details show the names too
    assert view.locator("img, script, svg svg").count() == 0
    assert page.evaluate("window.hacked") is None


def nasty_touch() -> Any:
    """A function whose variables, shapes, results and errors are all nasty."""

    def fail(**leaves: Any) -> Any:
        total = sum(leaf.sum() for leaf in leaves.values())
        if total < 0:
            raise ValueError(f"{NASTY[0]} {NASTY[1]} {NASTY[6]} & \x00\x1b[31m")
        return total.tanh()

    names = [name for name in NASTY if name]
    return touch(fail, **{name: 1.0 + place for place, name in enumerate(names)})


def test_nasty_names_in_a_function_that_is_touched(page: Any) -> None:
    page.emulate_media(reduced_motion="reduce")
    bench = Bench(page).open(nasty_touch())
    nodes = page.locator("g.node")
    assert nodes.count() >= len(NASTY)
    for index in range(nodes.count()):
        nodes.nth(index).evaluate("node => node.focus()")
    legends = page.locator(".edutorch-touch legend").all_text_contents()
    assert any(NASTY[0] in legend for legend in legends)
    bench.shown.command(
        {"type": "touch", "act": "set", "name": NASTY[0], "index": 0, "to": -1000.0}
    )
    bench.frame()
    assert NASTY[1] in page.get_by_role("alert").text_content()
    only_text(page, bench)
    bench.screenshot("nasty-touch")


def test_nasty_graphs_in_the_page(page: Any) -> None:
    page.emulate_media(reduced_motion="reduce")
    bench = Bench(page).open(Explorer(nasty()))
    assert page.locator("g.node").count() >= len(NASTY)
    for node in page.locator("g.node").all():
        node.evaluate("node => node.focus()")
    only_text(page, bench)


def only_text(page: Any, bench: Bench) -> None:
    """Nothing in the widget is anything but what the widget itself makes."""
    assert (
        page.locator(".edutorch-live :is(img, script, iframe, object, a, foreignObject)").count()
        == 0
    )
    handlers = page.evaluate(
        """() => [...document.querySelectorAll(".edutorch-live *")].flatMap((each) =>
          each.getAttributeNames().filter((name) => /^on|href|src/.test(name)))"""
    )
    assert handlers == []
    assert page.evaluate("window.hacked") is None
    assert bench.errors == []


@pytest.mark.parametrize("suffix", ["svg", "html"])
def test_nasty_names_in_files(page: Any, tmp_path: Any, suffix: str) -> None:
    path = Drawing(nasty()).save(tmp_path / f"nasty.{suffix}")
    page.set_content(path.read_text(encoding="utf-8").partition("?>")[2] or path.read_text())
    page.wait_for_timeout(300)
    assert page.evaluate("window.hacked") is None
    shown = page.evaluate("() => document.documentElement.textContent")
    assert "alert(1)" in shown
    assert page.locator("img, iframe, object, a[href], foreignObject").count() == 0
    bad = page.evaluate(
        """() => [...document.querySelectorAll("*")].flatMap((each) =>
          [...each.attributes].filter(({ name }) => /^on/.test(name)).map(({ name }) => name))"""
    )
    assert bad == []
