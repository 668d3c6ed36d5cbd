"""Texts with classes: news, reviews, questions and answers."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .files import DataFileError, find_file, make_splits, read_lines, read_text


class Table(NamedTuple):
    """A data set of CSV files with a class and columns of text."""

    folder: str
    classes: int
    about: str


TABLES = {
    "AG_NEWS": Table("ag_news_csv", 4, "News: the world, sports, business, science."),
    "DBpedia": Table("dbpedia_csv", 14, "Articles of Wikipedia in 14 classes."),
    "YelpReviewPolarity": Table("yelp_review_polarity_csv", 2, "Reviews: bad or good."),
    "YelpReviewFull": Table("yelp_review_full_csv", 5, "Reviews with one to five stars."),
    "YahooAnswers": Table("yahoo_answers_csv", 10, "Questions and answers on ten topics."),
    "AmazonReviewPolarity": Table("amazon_review_polarity_csv", 2, "Reviews: bad or good."),
    "AmazonReviewFull": Table("amazon_review_full_csv", 5, "Reviews with one to five stars."),
    "SogouNews": Table("sogou_news_csv", 5, "Chinese news on five topics, in Latin letters."),
}


def make_table_dataset(name: str, table: Table) -> Callable[..., Any]:
    """Return the function that reads a data set of CSV files."""

    def dataset(root: str | Path = ".data", split: str | Sequence[str] = ("train", "test")) -> Any:
        def reader(part: str) -> Callable[[], Iterator[Any]]:
            path = find_file(
                name, root, f"{table.folder}/{part}.csv", f"the archive {table.folder}.tar.gz"
            )
            return lambda: read_table(path, table.classes)

        return make_splits(name, split, ("train", "test"), reader)

    dataset.__name__ = dataset.__qualname__ = name
    dataset.__doc__ = f"""{table.about}

    Args:
        root: the folder with {table.folder}/train.csv and test.csv, as they are published.
        split: "train", "test", or several: then the result is a tuple.

    Returns: a data set to iterate over: (class, from 1 to {table.classes}; text).

    Raises:
        FileNotFoundError: a file is missing; the error says where it belongs.
        DataFileError (a ValueError): a line has no class, or no text; it is named.
    """
    return dataset


def read_table(path: Path, classes: int) -> Iterator[tuple[int, str]]:
    """Yield the class and the text of each row; several columns of text are joined."""
    csv.field_size_limit(2**24)
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        for row in reader:
            label = int(row[0]) if len(row) > 1 and row[0].isdecimal() else 0
            if not 1 <= label <= classes:
                expected = f"a class from 1 to {classes}, and texts"
                raise DataFileError(
                    "datasets", f"line {reader.line_num} of {path} is damaged",
                    {"expected": expected, "found": repr(row)[:80]},
                )  # fmt: skip
            yield label, " ".join(row[1:])


AG_NEWS = make_table_dataset("AG_NEWS", TABLES["AG_NEWS"])
DBpedia = make_table_dataset("DBpedia", TABLES["DBpedia"])
YelpReviewPolarity = make_table_dataset("YelpReviewPolarity", TABLES["YelpReviewPolarity"])
YelpReviewFull = make_table_dataset("YelpReviewFull", TABLES["YelpReviewFull"])
YahooAnswers = make_table_dataset("YahooAnswers", TABLES["YahooAnswers"])
AmazonReviewPolarity = make_table_dataset("AmazonReviewPolarity", TABLES["AmazonReviewPolarity"])
AmazonReviewFull = make_table_dataset("AmazonReviewFull", TABLES["AmazonReviewFull"])
SogouNews = make_table_dataset("SogouNews", TABLES["SogouNews"])


def IMDB(root: str | Path = ".data", split: str | Sequence[str] = ("train", "test")) -> Any:
    """Film reviews: bad (class 1) or good (class 2).

    Args:
        root: the folder with aclImdb, as it is published: aclImdb/train/neg/0_3.txt and so on.
        split: "train", "test", or both: then the result is a tuple.

    Returns: a data set to iterate over: (class, text).

    Raises: FileNotFoundError: the folder is missing; the error says where it belongs.

    Source: Maas et al., Learning Word Vectors for Sentiment Analysis, 2011.
    """

    def reader(part: str) -> Callable[[], Iterator[Any]]:
        archive = "the archive aclImdb_v1.tar.gz"
        folders = [find_file("IMDB", root, f"aclImdb/{part}/{c}", archive) for c in ("neg", "pos")]
        return lambda: (
            (label, read_text(path))
            for label, folder in enumerate(folders, start=1)
            for path in sorted(folder.glob("*.txt"))
        )

    return make_splits("IMDB", split, ("train", "test"), reader)


def SST2(root: str | Path = ".data", split: str | Sequence[str] = ("train", "dev", "test")) -> Any:
    """Sentences of film reviews: bad (0) or good (1).

    Args:
        root: the folder with SST-2/train.tsv, dev.tsv and test.tsv, as they are published.
        split: "train", "dev", "test", or several: then the result is a tuple.

    Returns: a data set to iterate over: (text, class); of "test" (text,).

    Raises:
        FileNotFoundError: a file is missing; the error says where it belongs.
        DataFileError (a ValueError): a line is damaged; it is named.

    Source: Socher et al., Recursive Deep Models for Semantic Compositionality, 2013.
    """

    def reader(part: str) -> Callable[[], Iterator[Any]]:
        path = find_file("SST2", root, f"SST-2/{part}.tsv", "the archive SST-2.zip")
        return lambda: read_sst2(path, is_test=part == "test")

    return make_splits("SST2", split, ("train", "dev", "test"), reader)


def read_sst2(path: Path, is_test: bool) -> Iterator[tuple[Any, ...]]:
    """Yield (sentence, class), or (sentence,) of the rows "index, sentence" for the test."""
    for number, line in read_lines(path):
        first, tab, second = line.partition("\t")
        if number == 1:  # the header
            continue
        if not tab or (not is_test and second not in ("0", "1")):
            raise DataFileError("datasets", f"line {number} of {path} is damaged: {line!r:.80}")
        yield (second,) if is_test else (first.strip(), int(second))
