"""Data sets of fields: language modelling, translation, film reviews."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from ..datasets.corpora import read_pairs
from ..datasets.files import find_file, read_lines, read_text
from .data import BPTTIterator, BucketIterator, Dataset, Example, Field

__all__ = [
    "IMDB", "LanguageModelingDataset", "Multi30k", "PennTreebank", "TranslationDataset",
    "WikiText103", "WikiText2",
]  # fmt: skip


class LanguageModelingDataset(Dataset):
    """One example, whose `text` is a whole file.

    Args:
        path: the file.
        text_field: reads the lines.
        newline_eos: whether "<eos>" stands for the end of a line.
        kwargs: passed on to `Dataset`.
    """

    name: ClassVar[str] = ""
    files: ClassVar[tuple[str, str, str]] = ("train", "valid", "test")
    archive: ClassVar[str] = ""

    def __init__(
        self, path: str | Path, text_field: Field, newline_eos: bool = True,
        encoding: str = "utf-8", **kwargs: Any,
    ) -> None:  # fmt: skip
        fields = [("text", text_field)]
        text: list[str] = []
        for _, line in read_lines(Path(path)):
            text += text_field.preprocess(line)
            if newline_eos:
                text.append("<eos>")
        example = Example()
        example.text = text  # type: ignore[attr-defined]
        super().__init__([example], fields, **kwargs)

    @classmethod
    def splits(  # type: ignore[override]
        cls, text_field: Field, root: str | Path = ".data", **kwargs: Any
    ) -> tuple[Self, ...]:
        """Return the parts for training, validation and test.

        Raises: FileNotFoundError: a file is missing; the error says where it belongs.
        """
        paths = [find_file(cls.name, root, file, cls.archive) for file in cls.files]
        return tuple(cls(path, text_field, **kwargs) for path in paths)

    @classmethod
    def iters(
        cls, batch_size: int = 32, bptt_len: int = 35, device: Any = None,
        root: str | Path = ".data", vectors: Any = None,
    ) -> tuple[BPTTIterator, ...]:  # fmt: skip
        """Return iterators over pieces of the three parts, with a field of their own."""
        field = Field()
        parts = cls.splits(field, root=root)
        field.build_vocab(parts[0], vectors=vectors)
        return BPTTIterator.splits(parts, batch_size=batch_size, bptt_len=bptt_len, device=device)


class WikiText2(LanguageModelingDataset):
    """Articles of Wikipedia, two million words."""

    name = "wikitext-2"
    files = tuple(f"wikitext-2/wiki.{part}.tokens" for part in ("train", "valid", "test"))  # type: ignore[assignment]
    archive = "the archive wikitext-2-v1.zip"


class WikiText103(LanguageModelingDataset):
    """Articles of Wikipedia, a hundred million words."""

    name = "wikitext-103"
    files = tuple(f"wikitext-103/wiki.{part}.tokens" for part in ("train", "valid", "test"))  # type: ignore[assignment]
    archive = "the archive wikitext-103-v1.zip"


class PennTreebank(LanguageModelingDataset):
    """Sentences of the Wall Street Journal."""

    name = "penn-treebank"
    files = ("ptb.train.txt", "ptb.valid.txt", "ptb.test.txt")
    archive = "the files ptb.train.txt, ptb.valid.txt and ptb.test.txt"


class TranslationDataset(Dataset):
    """Pairs of lines, `src` and `trg`, from two files that differ in their endings.

    Args:
        path: of both files, without the endings.
        exts: the endings, (".de", ".en").
        fields: of the two languages, or (name, field) of each.
        kwargs: passed on to `Dataset`.

    Raises: DataFileError (a ValueError): one of the files is longer.
    """

    def __init__(
        self, path: str | Path, exts: Sequence[str], fields: Sequence[Any], **kwargs: Any
    ) -> None:
        if not isinstance(fields[0], tuple):
            fields = [("src", fields[0]), ("trg", fields[1])]
        files = [Path(f"{path}{ending}") for ending in exts]
        pairs = read_pairs(*files)
        examples = [Example.fromlist(pair, fields) for pair in pairs if all(pair)]
        super().__init__(examples, fields, **kwargs)

    @staticmethod
    def sort_key(ex: Any) -> tuple[int, int]:
        """Return the lengths of both texts; pairs are sorted by them."""
        return len(ex.src), len(ex.trg)

    @classmethod
    def splits(  # type: ignore[override]
        cls, exts: Sequence[str], fields: Sequence[Any], path: str | Path | None = None,
        root: str | Path = ".data", train: str | None = "train", validation: str | None = "val",
        test: str | None = "test", **kwargs: Any,
    ) -> tuple[Self, ...]:  # fmt: skip
        """Return the parts of which a name is given.

        Raises: FileNotFoundError: a file is missing; the error says where it belongs.
        """
        parts = []
        for name in (train, validation, test):
            if name is not None:
                first = cls.find_part(path, root, name, exts[0])
                parts.append(cls(str(first).removesuffix(exts[0]), exts, fields, **kwargs))
        return tuple(parts)

    @classmethod
    def find_part(cls, path: str | Path | None, root: str | Path, name: str, ending: str) -> Path:
        """Return the file of a part in the first language."""
        return find_file(cls.__name__, root if path is None else path, name + ending, "its files")


class Multi30k(TranslationDataset):
    """Descriptions of pictures in German and English: train, val and test2016."""

    @classmethod
    def find_part(cls, path: str | Path | None, root: str | Path, name: str, ending: str) -> Path:
        """Return the file of a part; the test is called test2016, or test."""
        folder = root if path is None else path
        for variant in (name, {"test": "test2016", "test2016": "test"}.get(name, name)):
            for subfolder in ("multi30k", "Multi30k"):
                if (Path(folder) / subfolder / (variant + ending)).exists():
                    return Path(folder) / subfolder / (variant + ending)
        return find_file("multi30k", folder, name + ending, "the archives of Multi30k")


class IMDB(Dataset):
    """Film reviews: `text`, and a `label` "pos" or "neg".

    Args:
        path: the folder with the folders pos and neg.
        text_field, label_field: read the text and the label.
        kwargs: passed on to `Dataset`.
    """

    def __init__(
        self, path: str | Path, text_field: Field, label_field: Field, **kwargs: Any
    ) -> None:
        fields = [("text", text_field), ("label", label_field)]
        rows = self.read(Path(path))
        super().__init__((Example.fromlist(row, fields) for row in rows), fields, **kwargs)

    @staticmethod
    def read(path: Path) -> Iterator[tuple[str, str]]:
        """Yield the texts and labels of a folder."""
        for label in ("pos", "neg"):
            for file in sorted((path / label).glob("*.txt")):
                yield read_text(file), label

    @staticmethod
    def sort_key(ex: Any) -> int:
        """Return the length of the text."""
        return len(ex.text)

    @classmethod
    def splits(  # type: ignore[override]
        cls, text_field: Field, label_field: Field, root: str | Path = ".data",
        train: str | None = "train", test: str | None = "test", **kwargs: Any,
    ) -> tuple[Self, ...]:  # fmt: skip
        """Return the parts for training and test.

        Raises: FileNotFoundError: a folder is missing; the error says where it belongs.
        """
        paths = [
            find_file("imdb", root, f"aclImdb/{name}", "the archive aclImdb_v1.tar.gz")
            for name in (train, test)
            if name is not None
        ]
        return tuple(cls(path, text_field, label_field, **kwargs) for path in paths)

    @classmethod
    def iters(
        cls, batch_size: int = 32, device: Any = None, root: str | Path = ".data",
        vectors: Any = None,
    ) -> tuple[BucketIterator, ...]:  # fmt: skip
        """Return iterators over both parts, with fields of their own."""
        text, label = Field(), Field(sequential=False)
        parts = cls.splits(text, label, root=root)
        text.build_vocab(parts[0], vectors=vectors)
        label.build_vocab(parts[0])
        return BucketIterator.splits(parts, batch_size=batch_size, device=device)
