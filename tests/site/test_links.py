"""Links to the site stand in the pages as soon as it has an address."""

from __future__ import annotations

import pytest

from docs.site_links import BEGIN, PLACES, ROOT, links, site_address, with_links
from edutorch.cli.lessons import read_lessons


@pytest.mark.parametrize("place", PLACES)
def test_the_pages_have_the_links_of_the_setting(place):
    text = (ROOT / place).read_text("utf-8")
    assert BEGIN in text
    assert with_links(text, links(site_address(), read_lessons())) == text, (
        "write them: python -m docs.site_links"
    )


def test_each_marked_lesson_has_a_link():
    lessons = read_lessons()
    line = links("https://name.github.io/edutorch", lessons)
    for lesson in lessons:
        assert (f"?path={lesson.path.name})" in line) == lesson.in_browser
    page = f"before\n{BEGIN}\nold\n<!-- end of the links -->\nafter\n"
    assert line in with_links(page, line)
    assert "old" not in with_links(page, line)
    assert links("", lessons) == ""
