"""Texts: Python's own manual, and dates in many languages."""

from __future__ import annotations

import ast
import datetime
import functools
import random

from .packages import file_of, require_package

LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "pt", "sv")
FORMATS = ("medium", "long", "full")  # a short "3/4/87" is a day in April, or in March


def load_manual() -> dict[str, str]:
    """Return the topics of Python's own manual, which `help()` shows: name and text of each.

    Every Python carries them (PSF licence).

    >>> load_manual()["assert"][:24]
    'The "assert" statement\\n*'
    """
    file = file_of("pydoc_data", "topics.py", "datasets.load_manual", extra="")
    topics = ast.parse(file.read_bytes()).body[-1].value  # type: ignore[attr-defined]
    return dict(sorted(ast.literal_eval(topics).items()))


def load_dates(
    count: int, seed: int = 0, languages: tuple[str, ...] = LANGUAGES
) -> list[tuple[str, str]]:
    """Return dates as people write them, each with its form in ISO 8601.

    Args:
        count: how many pairs, no two with the same text.
        seed: of the random days from 1900 to 2099, languages and formats.
        languages: codes of Babel's locales.

    From Babel (BSD-3), which has them from the Unicode consortium's CLDR.

    Raises: ValueError: there are not so many, or there is no such language, or none at all.

    >>> load_dates(2)  # doctest: +SKIP
    [('vendredi 3 avril 1987', '1987-04-03'), ('12. Mai 2031', '2031-05-12')]
    """
    require_package("babel", "datasets.load_dates")
    from babel.core import UnknownLocaleError
    from babel.dates import format_date, get_date_format

    @functools.cache
    def pattern_of(style: str, language: str) -> str:
        """Return a format of a language, with all digits of the year."""
        try:
            pattern: str = get_date_format(style, locale=language).pattern
        except (UnknownLocaleError, ValueError) as error:
            raise ValueError(f"datasets.load_dates: Babel has no locale {language!r}") from error
        return pattern if "yyyy" in pattern else pattern.replace("yy", "y")

    if count < 0 or not languages:
        raise ValueError(
            f"datasets.load_dates: got {count} dates of {len(languages)} languages"
            "\n  hint: count is 0 or more, and there is at least one language"
        )
    draw = random.Random(seed)
    first, last = datetime.date(1900, 1, 1).toordinal(), datetime.date(2099, 12, 31).toordinal()
    pairs: dict[str, str] = {}
    for _ in range(20 * count + 1):
        if len(pairs) == count:
            break
        day = datetime.date.fromordinal(draw.randint(first, last))
        language = draw.choice(languages)
        text = format_date(day, pattern_of(draw.choice(FORMATS), language), locale=language)
        pairs.setdefault(text, day.isoformat())
    else:
        raise ValueError(f"datasets.load_dates: there are no {count} different dates")
    return list(pairs.items())
