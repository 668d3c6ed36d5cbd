"""Word vectors that others have trained, read from local files.

A file has a line for each word: the word and its numbers. Reading takes a while, so the result is
kept beside it, as a file of tensors with the ending .pt.
"""

from __future__ import annotations

import gzip
import math
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...core.tensor import Tensor
from ...errors import EdutorchError, InvalidValueError, warn
from ...ops import from_numpy, stack, zeros, zeros_like
from ...serialization import CheckpointError, load, save


class VectorFileError(EdutorchError, RuntimeError):
    """A file of vectors is damaged; the line is named."""


class MissingVectorsError(FileNotFoundError, RuntimeError):
    """There is no such file of vectors. (torchtext raises a RuntimeError here.)"""


class Vectors:
    """A vector for each word of a file.

    Args:
        name: the file, as it is or in `cache`: a text, or one compressed as .gz, with a word and
            its numbers in each line. Words that are not in UTF-8 are left out, with a warning.
        cache: the folder of the file, and of what is kept of it. Default: .vector_cache
        url: accepted, as torchtext has it; nothing is downloaded.
        unk_init: returns the vector of an unknown word, from an empty one; default: zeros.
        max_vectors: read only so many words from the top of the file, where the frequent ones are.

    Raises:
        MissingVectorsError (a FileNotFoundError): the file is neither there nor in `cache`.
        VectorFileError (a RuntimeError): a line is damaged.
    """

    def __init__(
        self, name: str | Path, cache: str | Path | None = None, url: str | None = None,
        unk_init: Callable[[Tensor], Any] | None = None, max_vectors: int | None = None,
    ) -> None:  # fmt: skip
        if max_vectors is not None and max_vectors < 1:
            raise InvalidValueError("Vectors", f"max_vectors must be at least 1, got {max_vectors}")
        self.unk_init = unk_init or zeros_like
        folder = Path(cache or ".vector_cache")
        file = self.find_file(Path(name), folder, url)
        limit = f"_{max_vectors}" if max_vectors else ""
        kept = folder / f"{file.name}{limit}.pt"
        if kept.is_file() and kept.stat().st_mtime >= file.stat().st_mtime:
            self.itos, self.vectors = read_cache(kept)
        else:
            try:
                self.itos, self.vectors = read_vectors(file, max_vectors)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise VectorFileError("Vectors", f"{file} is no complete .gz: {error}") from error
            folder.mkdir(parents=True, exist_ok=True)
            save({"itos": self.itos, "vectors": self.vectors}, kept)
        self.stoi = {word: index for index, word in enumerate(self.itos)}
        self.dim = self.vectors.shape[1]

    def find_file(self, name: Path, folder: Path, url: str | None) -> Path:
        """Return the path of the file."""
        for file in (name, folder / name):
            if file.is_file():
                return file
        source = f" (of {url.rpartition('/')[2]})" if url else ""
        raise MissingVectorsError(
            f"{type(self).__name__}: {folder / name.name} is not there"
            f"\n  hint: nothing is downloaded; put the published {name.name}{source} into {folder}"
        )

    def __len__(self) -> int:
        return len(self.itos)

    def __contains__(self, token: str) -> bool:
        return token in self.stoi

    def __getitem__(self, token: str) -> Tensor:
        index = self.stoi.get(token)
        if index is not None:
            return self.vectors[index]
        vector = zeros(self.dim)
        result = self.unk_init(vector)
        return vector if result is None else result

    def get_vecs_by_tokens(
        self, tokens: str | Sequence[str], lower_case_backup: bool = False
    ) -> Tensor:
        """Return the vectors of tokens, one each; of a single token, its vector.

        Args:
            lower_case_backup: whether to look for the lower case where a word is unknown.

        Shape: (tokens, dim), or (dim,).
        """
        words = [tokens] if isinstance(tokens, str) else tokens
        known = [
            word if word in self.stoi or not lower_case_backup else word.lower() for word in words
        ]
        if not known:
            return zeros(0, self.dim)
        vectors = stack([self[word] for word in known])
        return vectors[0] if isinstance(tokens, str) else vectors


class GloVe(Vectors):
    """Pennington, Socher and Manning's vectors: `GloVe("6B", 100)` reads glove.6B.100d.txt.

    Args:
        name: "6B", "42B", "840B" or "twitter.27B".
        dim: the length of the vectors.
        options: `cache`, `unk_init` and `max_vectors` of `Vectors`.
    """

    url: ClassVar = {
        "42B": "glove.42B.300d.zip", "840B": "glove.840B.300d.zip",
        "twitter.27B": "glove.twitter.27B.zip", "6B": "glove.6B.zip",
    }  # fmt: skip

    def __init__(self, name: str = "840B", dim: int = 300, **options: Any) -> None:
        super().__init__(f"glove.{name}.{dim}d.txt", url=self.url.get(name), **options)
        self.name = name


class FastText(Vectors):
    """Bojanowski and others' vectors: `FastText("en")` reads wiki.en.vec.

    Args:
        language: the code of a language.
        options: `cache`, `unk_init` and `max_vectors` of `Vectors`.
    """

    def __init__(self, language: str = "en", **options: Any) -> None:
        super().__init__(f"wiki.{language}.vec", **options)


class CharNGram(Vectors):
    """Hashimoto and others' vectors of character n-grams: a word's is the mean of its n-grams'.

    It reads charNgram.txt.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__("charNgram.txt", url="jmt_pre-trained_embeddings.tar.gz", **options)

    def __getitem__(self, token: str) -> Tensor:
        characters = ["#BEGIN#", *token, "#END#"] if token != "<unk>" else []
        grams = {
            f"{n}gram-{''.join(characters[start : start + n])}"
            for n in (2, 3, 4)
            for start in range(len(characters) - n + 1)
        }
        rows = [self.vectors[self.stoi[gram]] for gram in sorted(grams) if gram in self.stoi]
        if rows:
            return stack(rows).mean(0, keepdim=True)
        return self.unk_init(zeros(1, self.dim))


def iterate_lines(file: Path, limit: int | None) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the number of each line and what stands between its spaces, without the header."""
    with gzip.open(file) if file.suffix == ".gz" else open(file, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            fields = line.rstrip().split(b" ")
            if number == 1 and len(fields) == 2:  # FastText's: how many words, how many numbers
                continue
            if fields == [b""]:
                continue
            if limit is not None and limit <= 0:
                return
            limit = None if limit is None else limit - 1
            yield number, fields


def read_vectors(file: Path, max_vectors: int | None) -> tuple[list[str], Tensor]:
    """Return the words of a file, and their vectors.

    Raises: VectorFileError: a line has other than numbers, or another count of them.
    """
    words: dict[str, None] = {}
    values = array("f")
    dim = skipped = 0
    for number, (word, *fields) in iterate_lines(file, max_vectors):
        where = f"line {number} of {file}"
        dim = dim or len(fields)
        if len(fields) != dim or dim < 2:
            raise VectorFileError(
                "Vectors", f"{where} has another count of numbers than the lines before",
                {
                    "word": repr(word.decode(errors="replace")),
                    "expected": f"{dim} numbers, at least 2", "found": len(fields),
                },
            )  # fmt: skip
        try:
            row = array("f", map(float, fields))
        except ValueError as error:
            raise VectorFileError("Vectors", f"{where} is damaged: {error}") from error
        if not all(map(math.isfinite, row)):
            raise VectorFileError("Vectors", f"{where} has a number that is not finite")
        try:
            text = word.decode()
        except UnicodeDecodeError:  # there are a few in published files
            skipped += 1
            continue
        if text not in words:  # a few words stand there twice
            words[text] = None
            values.extend(row)
    if skipped:
        warn(f"Vectors: {skipped} words of {file} are not in UTF-8, and left out")
    if not words:
        raise VectorFileError("Vectors", f"{file} has no vectors")
    table = np.frombuffer(values, np.float32).reshape(len(words), dim).copy()
    return list(words), from_numpy(table)


def read_cache(file: Path) -> tuple[list[str], Tensor]:
    """Return the words and vectors that were kept, by this library or by torchtext."""
    kept = load(file)
    if isinstance(kept, dict) and {"itos", "vectors"} <= kept.keys():
        return kept["itos"], kept["vectors"]
    if isinstance(kept, tuple) and len(kept) == 4:  # torchtext: words, indices, vectors, dim
        return kept[0], kept[2]
    raise CheckpointError("Vectors", f"{file} holds no vectors", hint="delete it: it is made again")


def alias_names() -> Iterable[tuple[str, Callable[..., Vectors]]]:
    """Yield the names that legacy fields know, and what makes the vectors."""

    def glove(name: str, dim: int) -> Callable[..., Vectors]:
        return lambda **options: GloVe(name, dim, **options)

    yield "charngram.100d", CharNGram
    yield "fasttext.en.300d", FastText
    yield "fasttext.simple.300d", lambda **options: FastText("simple", **options)
    yield "glove.42B.300d", glove("42B", 300)
    yield "glove.840B.300d", glove("840B", 300)
    for dim in (25, 50, 100, 200):
        yield f"glove.twitter.27B.{dim}d", glove("twitter.27B", dim)
    for dim in (50, 100, 200, 300):
        yield f"glove.6B.{dim}d", glove("6B", dim)


pretrained_aliases = dict(alias_names())
"""Vectors by the names that `Field.build_vocab(vectors="glove.6B.100d")` knows."""
