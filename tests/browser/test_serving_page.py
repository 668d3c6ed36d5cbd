"""The page of `edutorch serve` in a browser: the graph of a model, and a form to try it."""

from __future__ import annotations

import pytest

from tests.serve.running import running, write_mlp
from tests.serve.test_formats import write_network

pytestmark = pytest.mark.browser


def test_the_graph_is_shown_and_the_form_answers(browser, tmp_path):
    write_network(tmp_path / "models" / "net" / "1", ".onnx")
    write_mlp(tmp_path / "models")
    problems: list[str] = []
    with running(tmp_path / "models") as server:
        page = browser.new_page(viewport={"width": 1000, "height": 1400})
        page.on("console", lambda entry: problems.append(entry.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(server.url)
        assert page.locator("h2").all_text_contents() == [
            "mlp version 1, edutorch", "net version 1, onnx",
        ]  # fmt: skip
        page.wait_for_function("[...document.images].every(i => i.complete && i.naturalWidth > 50)")
        form = page.locator("form[data-model=net]")
        form.get_by_role("button").click()
        result = form.locator(".result")
        result.get_by_text("200, ").wait_for()
        assert "scores FP32 [1,10]: " in result.inner_text()
        page.screenshot(path=tmp_path / "page.png", full_page=True)
        assert problems == []
        form.locator("textarea").fill("[[1, 2]]")
        form.get_by_role("button").click()
        result.get_by_text("400, ").wait_for()
        assert "has shape [1, 2], but the model takes [-1, 64]" in result.inner_text()
        page.close()
