"""Splitting a text into words, and words into n-grams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...errors import InvalidValueError, MissingExtraError

REPLACEMENTS = (
    ("'", " '  "), ('"', ""), (".", " . "), ("<br />", " "), (",", " , "), ("(", " ( "),
    (")", " ) "), ("!", " ! "), ("?", " ? "), (";", " "), (":", " "),
)  # fmt: skip
"""What "basic_english" puts in place of punctuation, in this order."""


def get_tokenizer(tokenizer: str | Callable[..., Any] | None, language: str = "en") -> Any:
    """Return a function that splits a text into tokens.

    Args:
        tokenizer: None: at white space; "basic_english": lower case, punctuation apart; "spacy":
            that library's, for `language`; or a function of yours, which is returned as it is.

    Raises:
        MissingExtraError (an ImportError): the library is not installed.
        InvalidValueError: there is no such tokenizer, or none for this language.

    >>> get_tokenizer("basic_english")("You can now install TorchText using pip!")
    ['you', 'can', 'now', 'install', 'torchtext', 'using', 'pip', '!']
    """
    if tokenizer is None:
        return str.split
    if callable(tokenizer):
        return tokenizer
    if tokenizer == "basic_english":
        if language != "en":
            raise InvalidValueError(
                "get_tokenizer", f"basic_english is for English, not for {language!r}",
                hint='None splits at white space; "spacy" knows many languages',
            )  # fmt: skip
        return split_basic_english
    if tokenizer == "spacy":
        return load_spacy(language)
    if tokenizer in ("moses", "toktok", "revtok", "subword"):
        raise InvalidValueError(
            "get_tokenizer", f"{tokenizer!r} comes from a library that is not used here",
            hint=f"give its function: get_tokenizer({OTHERS[tokenizer]})",
        )  # fmt: skip
    raise InvalidValueError(
        "get_tokenizer", f"there is no tokenizer {tokenizer!r}",
        hint='one of "basic_english", "spacy", None, or a function of yours',
    )  # fmt: skip


OTHERS = {
    "moses": "sacremoses.MosesTokenizer().tokenize",
    "toktok": "nltk.tokenize.toktok.ToktokTokenizer().tokenize",
    "revtok": "revtok.tokenize",
    "subword": "text.tokenizers.BPE.load(file).tokenize",
}
"""What to write for the other tokenizers that torchtext names."""


def split_basic_english(line: str) -> list[str]:
    """Return the words of a text in lower case, and its punctuation marks.

    >>> split_basic_english("It's (not) a test...")
    ['it', "'", 's', '(', 'not', ')', 'a', 'test', '.', '.', '.']
    """
    line = line.lower()
    for old, new in REPLACEMENTS:
        line = line.replace(old, new)
    return line.split()


def load_spacy(language: str) -> Callable[[str], list[str]]:
    """Return spaCy's tokenizer of a language."""
    try:
        import spacy
    except ImportError as error:
        raise MissingExtraError(
            "get_tokenizer", "spaCy is not installed",
            hint='pip install spacy, or take "basic_english" or str.split',
        ) from error  # fmt: skip
    try:
        pipeline = spacy.load(language)
    except OSError:  # a model with tags and parses is a download of its own
        pipeline = spacy.blank(language.partition("_")[0])
    return lambda text: [token.text for token in pipeline.tokenizer(text)]


def ngrams_iterator(token_list: list[str], ngrams: int) -> Iterator[str]:
    """Yield the tokens, then pairs of neighbours, and so on to groups of `ngrams`.

    >>> list(ngrams_iterator(["here", "we", "are"], 2))
    ['here', 'we', 'are', 'here we', 'we are']
    """
    yield from token_list
    for size in range(2, ngrams + 1):
        for start in range(len(token_list) - size + 1):
            yield " ".join(token_list[start : start + size])


def interleave_keys(a: int, b: int) -> int:
    """Return one number of two, whose order groups pairs of lengths that are alike.

    The binary digits of both take turns.

    >>> interleave_keys(0b11, 0b00)
    10
    """
    digits = zip(format(a, "016b"), format(b, "016b"), strict=True)
    return int("".join(first + second for first, second in digits), base=2)
