"""Texts without classes: language modelling, translation, tagging, questions on a text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...errors import InvalidValueError
from .files import DataFileError, find_file, make_splits, read_lines

PARTS = ("train", "valid", "test")


def read_wikitext(name: str, folder: str, root: str | Path, split: str | Sequence[str]) -> Any:
    """Return the splits of WikiText: its lines, each with its end."""

    def reader(part: str) -> Callable[[], Iterator[str]]:
        archive = f"the archive {folder}-v1.zip"
        path = find_file(name, root, f"{folder}/wiki.{part}.tokens", archive)
        return lambda: (f"{line}\n" for _, line in read_lines(path))

    return make_splits(name, split, PARTS, reader)


def WikiText2(root: str | Path = ".data", split: str | Sequence[str] = PARTS) -> Any:
    """Articles of Wikipedia, two million words.

    Args:
        root: the folder with wikitext-2/wiki.train.tokens, and so on, as they are published.
        split: "train", "valid", "test", or several: then the result is a tuple.

    Returns: a data set to iterate over: lines.

    Raises: FileNotFoundError: a file is missing; the error says where it belongs.

    Source: Merity et al., Pointer Sentinel Mixture Models, arXiv:1609.07843.
    """
    return read_wikitext("WikiText2", "wikitext-2", root, split)


def WikiText103(root: str | Path = ".data", split: str | Sequence[str] = PARTS) -> Any:
    """Articles of Wikipedia, a hundred million words; see `WikiText2`."""
    return read_wikitext("WikiText103", "wikitext-103", root, split)


def PennTreebank(root: str | Path = ".data", split: str | Sequence[str] = PARTS) -> Any:
    """Sentences of the Wall Street Journal, rare words replaced by "<unk>".

    Args:
        root: the folder with ptb.train.txt, ptb.valid.txt and ptb.test.txt.
        split: "train", "valid", "test", or several: then the result is a tuple.

    Returns: a data set to iterate over: lines.

    Raises: FileNotFoundError: a file is missing; the error says where it belongs.
    """

    def reader(part: str) -> Callable[[], Iterator[str]]:
        path = find_file("PennTreebank", root, f"ptb.{part}.txt", f"the file ptb.{part}.txt")
        return lambda: (line.strip() for _, line in read_lines(path))

    return make_splits("PennTreebank", split, PARTS, reader)


def Multi30k(
    root: str | Path = ".data", split: str | Sequence[str] = PARTS,
    language_pair: tuple[str, str] = ("de", "en"),
) -> Any:  # fmt: skip
    """Descriptions of pictures in two languages.

    Args:
        root: the folder with train.de, train.en, val.de, val.en, test.de and test.en.
        split: "train", "valid", "test", or several: then the result is a tuple.
        language_pair: ("de", "en") or ("en", "de").

    Returns: a data set to iterate over: (source, target).

    Raises:
        FileNotFoundError: a file is missing; the error says where it belongs.
        DataFileError (a ValueError): the two files have different numbers of lines.

    Source: Elliott et al., Multi30K: Multilingual English-German Image Descriptions, 2016.
    """
    if tuple(sorted(language_pair)) != ("de", "en"):
        raise InvalidValueError(
            "datasets.Multi30k",
            f"language_pair must be ('de', 'en') or ('en', 'de'), not {language_pair}",
        )

    def reader(part: str) -> Callable[[], Iterator[tuple[str, str]]]:
        file, archive = {
            "train": ("train", "training.tar.gz"), "valid": ("val", "validation.tar.gz"),
            "test": ("test", "mmt16_task1_test.tar.gz"),
        }[part]  # fmt: skip
        paths = [
            find_file("Multi30k", root, f"{file}.{language}", f"the archive {archive}")
            for language in language_pair
        ]
        return lambda: read_pairs(*paths)

    return make_splits("Multi30k", split, PARTS, reader)


def read_pairs(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    """Yield the lines of two files side by side.

    Raises: DataFileError: one of them is longer.
    """
    sources, targets = read_lines(source), read_lines(target)
    for number, line in sources:
        other = next(targets, None)
        if other is None:
            raise DataFileError("datasets", f"{target} ends before line {number} of {source}")
        yield line.strip(), other[1].strip()
    if (other := next(targets, None)) is not None:
        raise DataFileError("datasets", f"{source} ends before line {other[0]} of {target}")


def UDPOS(root: str | Path = ".data", split: str | Sequence[str] = PARTS) -> Any:
    """Sentences with the part of speech of each word, by two sets of tags.

    Args:
        root: the folder with en-ud-v2/en-ud-tag.v2.train.txt, and so on.
        split: "train", "valid", "test", or several: then the result is a tuple.

    Returns: a data set to iterate over: [words, universal tags, Penn Treebank's tags].

    Raises:
        FileNotFoundError: a file is missing; the error says where it belongs.
        DataFileError (a ValueError): a line has no tags.
    """

    def reader(part: str) -> Callable[[], Iterator[list[list[str]]]]:
        name = "dev" if part == "valid" else part
        path = find_file(
            "UDPOS", root, f"en-ud-v2/en-ud-tag.v2.{name}.txt", "the archive en-ud-v2.zip"
        )
        return lambda: read_columns(path, "\t", 3)

    return make_splits("UDPOS", split, PARTS, reader)


def CoNLL2000Chunking(
    root: str | Path = ".data", split: str | Sequence[str] = ("train", "test")
) -> Any:
    """Sentences with the part of speech of each word, and the phrase that it is in.

    Args:
        root: the folder with train.txt and test.txt.
        split: "train", "test", or both: then the result is a tuple.

    Returns: a data set to iterate over: [words, tags, chunks].

    Raises:
        FileNotFoundError: a file is missing; the error says where it belongs.
        DataFileError (a ValueError): a line has no tags.
    """

    def reader(part: str) -> Callable[[], Iterator[list[list[str]]]]:
        path = find_file("CoNLL2000Chunking", root, f"{part}.txt", f"the file {part}.txt.gz")
        return lambda: read_columns(path, " ", 3)

    return make_splits("CoNLL2000Chunking", split, ("train", "test"), reader)


def read_columns(path: Path, separator: str, count: int) -> Iterator[list[list[str]]]:
    """Yield the columns of each sentence: a word and its tags in each line, then an empty line."""
    columns: list[list[str]] = [[] for _ in range(count)]
    for number, line in read_lines(path):
        fields = line.split(separator) if line.strip() else []
        if fields and len(fields) != count:
            raise DataFileError(
                "datasets", f"line {number} of {path} has {len(fields)} columns, not {count}"
            )
        for column, field in zip(columns, fields, strict=False):
            column.append(field)
        if not fields and columns[0]:
            yield columns
            columns = [[] for _ in range(count)]
    if columns[0]:
        yield columns


def read_squad(name: str, version: str, root: str | Path, split: str | Sequence[str]) -> Any:
    """Return the splits of SQuAD."""

    def reader(part: str) -> Callable[[], Iterator[Any]]:
        file = f"{part}-{version}.json"
        path = find_file(name, root, file, f"the file {file}")
        return lambda: read_questions(path)

    return make_splits(name, split, ("train", "dev"), reader)


def read_questions(path: Path) -> Iterator[tuple[str, str, list[str], list[int]]]:
    """Yield (text, question, answers, where each begins); without an answer: [""] and [-1]."""
    try:
        for article in json.loads(path.read_text("utf-8"))["data"]:
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    answers = [answer["text"] for answer in question["answers"]] or [""]
                    starts = [answer["answer_start"] for answer in question["answers"]] or [-1]
                    yield paragraph["context"], question["question"], answers, starts
    except (ValueError, KeyError, TypeError) as error:
        raise DataFileError("datasets", f"{path} is not in SQuAD's format: {error!r}") from error


def SQuAD1(root: str | Path = ".data", split: str | Sequence[str] = ("train", "dev")) -> Any:
    """Questions on paragraphs of Wikipedia, whose answers stand in the text.

    Args:
        root: the folder with train-v1.1.json and dev-v1.1.json.
        split: "train", "dev", or both: then the result is a tuple.

    Returns: a data set to iterate over: (text, question, answers, where each begins).

    Raises: FileNotFoundError: a file is missing; the error says where it belongs.

    Source: Rajpurkar et al., SQuAD, arXiv:1606.05250.
    """
    return read_squad("SQuAD1", "v1.1", root, split)


def SQuAD2(root: str | Path = ".data", split: str | Sequence[str] = ("train", "dev")) -> Any:
    """Questions some of which the text does not answer: [""] and [-1]; see `SQuAD1`.

    It reads train-v2.0.json and dev-v2.0.json.
    """
    return read_squad("SQuAD2", "v2.0", root, split)
