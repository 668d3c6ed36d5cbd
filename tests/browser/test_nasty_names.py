"""Names come from user code: whatever they hold, the page shows it and runs nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.lab import Lab, appear, run_all, write_notebook

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
