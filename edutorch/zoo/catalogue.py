"""The models that come with edutorch: how each is built, and an input that it takes.

>>> from edutorch.zoo.catalogue import find_model
>>> entry = find_model("resnet18")
>>> entry.room, entry.oracle
('vision', 'torchvision')
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import InvalidValueError
from ..nn import Module
from ..ops import rand, randint


class Entry(NamedTuple):
    """A model of the zoo.

    Args:
        room: the package that it is in.
        oracle: the library whose model it is compared with in the tests, "" for none.
        build: makes the model; called inside `with device("meta")`, it takes no memory.
        example: makes an input, on the device that is the default.
        trained: for a model whose weights come along: what it reaches.
    """

    name: str
    room: str
    oracle: str
    build: Callable[[], Module]
    example: Callable[[], Any]
    trained: str = ""


def picture(size: int = 224) -> Any:
    return rand(1, 3, size, size)


def vision_entry(name: str) -> Entry:
    from ..vision import models

    oracle = "" if name == "unet" else "torchvision"
    size = 256 if name == "unet" else 224
    return Entry(
        name, "vision", oracle, lambda: models.get_model(name), lambda: picture(size)
    )  # fmt: skip


def text_entries() -> list[Entry]:
    from ..text.models import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel

    return [
        Entry("gpt2", "text", "transformers", lambda: GPT2LMHeadModel(GPT2Config()),
              lambda: randint(0, 50257, (1, 128))),
        Entry("bert_base", "text", "transformers", lambda: BertModel(BertConfig()),
              lambda: randint(0, 30522, (1, 128))),
    ]  # fmt: skip


def trained_entries() -> list[Entry]:
    """Return the entries of the models whose weights come along."""
    from . import char_gpt, digits_cnn, spoken_digits

    return [
        Entry("digits_cnn", "zoo", "", digits_cnn.DigitsCNN, lambda: rand(1, 1, 8, 8),
              f"reads {100 * digits_cnn.ACCURACY:.1f} % of unseen digits"),
        Entry("char_gpt", "zoo", "", char_gpt.load_model,
              lambda: randint(0, len(char_gpt.CHARACTERS), (1, 128)),
              f"needs {char_gpt.BITS:.2f} bits for a character of Python's manual"),
        Entry("spoken_digits", "zoo", "", spoken_digits.DigitRecognizer,
              lambda: rand(1, 22050),
              f"{100 * spoken_digits.WORD_ERROR:.1f} % of words wrong, of unseen voices"),
    ]  # fmt: skip


def list_entries() -> list[Entry]:
    """Return all models, room by room."""
    from ..vision import models

    return [*map(vision_entry, models.list_models()), *text_entries(), *trained_entries()]


def find_model(name: str) -> Entry:
    """Return the entry of a name.

    Raises: InvalidValueError (a ValueError): there is no such model; the nearest are named.
    """
    entries = {entry.name: entry for entry in list_entries()}
    if name in entries:
        return entries[name]
    near = difflib.get_close_matches(name, entries, n=3)
    raise InvalidValueError(
        "zoo", f"there is no model {name!r}",
        hint=f"did you mean {', '.join(near)}?" if near else "python -m edutorch zoo lists all",
    )  # fmt: skip
