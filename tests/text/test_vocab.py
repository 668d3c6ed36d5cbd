"""Vocabularies and word vectors: torchtext's order and errors, and damaged files."""

from __future__ import annotations

import gzip
import os

import pytest

import edutorch as torch
from edutorch.errors import ArgumentError, InvalidValueError
from edutorch.serialization import CheckpointError
from edutorch.text.vocab import (
    CharNGram,
    FastText,
    GloVe,
    Vectors,
    Vocab,
    build_vocab_from_iterator,
    pretrained_aliases,
    vocab,
)
from edutorch.text.vocab.vectors import VectorFileError

TEXTS = [["b", "a", "c", "b"], ["c", "b", "d"]]


def test_order_of_a_vocabulary():
    words = build_vocab_from_iterator(TEXTS, specials=["<unk>", "<pad>"])
    assert words.get_itos() == ["<unk>", "<pad>", "b", "c", "a", "d"]
    assert words.get_stoi()["c"] == 3 and len(words) == 6 and "a" in words and "x" not in words
    last = build_vocab_from_iterator(TEXTS, specials=["<unk>"], special_first=False)
    assert last.get_itos() == ["b", "c", "a", "d", "<unk>"]
    assert build_vocab_from_iterator(TEXTS, min_freq=2).get_itos() == ["b", "c"]
    few = build_vocab_from_iterator(TEXTS, specials=["<unk>"], max_tokens=3)
    assert few.get_itos() == ["<unk>", "b", "c"]
    # A special token that occurs in the texts stands once, and where special ones do.
    assert vocab({"a": 1, "<unk>": 5, "b": 1}, specials=["<unk>"]).get_itos() == ["<unk>", "a", "b"]


def test_lookups():
    words = Vocab(["<unk>", "a", "b"])
    assert words(["b", "a"]) == [2, 1] == words.lookup_indices(["b", "a"])
    assert words.lookup_tokens([0, 2]) == ["<unk>", "b"]
    assert words.get_default_index() is None
    words.set_default_index(words["<unk>"])
    assert words["zebra"] == 0 and words(["zebra", "b"]) == [0, 2]
    words.append_token("c")
    words.insert_token("first", 0)
    assert words.get_itos() == ["first", "<unk>", "a", "b", "c"]
    assert [words.get_stoi()[token] for token in words.get_itos()] == [0, 1, 2, 3, 4]
    assert repr(words) == "Vocab(5 tokens)"


def test_unknown_tokens_and_indices():
    words = Vocab(["a", "b"])
    with pytest.raises(RuntimeError, match="Token zebra not found and default index is not set"):
        words(["a", "zebra"])
    with pytest.raises(RuntimeError, match="index 2 is out of bounds for vocab of size 2"):
        words.lookup_token(2)
    with pytest.raises(RuntimeError, match="out of bounds"):
        words.lookup_tokens([-1])
    with pytest.raises(RuntimeError, match="Token b already exists in the Vocab with index: 1"):
        words.append_token("b")
    with pytest.raises(RuntimeError, match="out of bounds"):
        words.insert_token("c", 4)
    with pytest.raises(RuntimeError, match="Duplicate token found in tokens list: a"):
        Vocab(["a", "a"])


def test_a_text_is_no_list_of_tokens():
    with pytest.raises(ArgumentError, match=r"split it: text\.split\(\)"):
        Vocab(["a"])("a b")
    with pytest.raises(ArgumentError, match="expected lists of tokens, got the text 'a b'"):
        build_vocab_from_iterator(["a b"])
    with pytest.raises(InvalidValueError, match="no token fits beside the special ones"):
        build_vocab_from_iterator(TEXTS, specials=["x"], max_tokens=1)


def test_empty_texts():
    assert len(build_vocab_from_iterator([])) == 0
    assert build_vocab_from_iterator([[], []], specials=["<unk>"]).get_itos() == ["<unk>"]
    assert Vocab(["a"])([]) == []


# Vectors -----------------------------------------------------------------------------------

LINES = "the 0.5 1.5 -2.0\ncat 1 2 3\nthe 9 9 9\nCafé 0 1e-3 0\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "glove.6B.3d.txt").write_text(LINES, encoding="utf-8")
    return tmp_path


def test_vectors_of_a_file(folder):
    vectors = GloVe("6B", 3, cache=folder)
    assert vectors.itos == ["the", "cat", "Café"] and vectors.dim == 3 and len(vectors) == 3
    assert vectors["cat"].tolist() == [1, 2, 3] and vectors["dog"].tolist() == [0, 0, 0]
    assert "Café" in vectors and "dog" not in vectors
    table = vectors.get_vecs_by_tokens(["the", "THE", "Cat"], lower_case_backup=True)
    assert table.tolist() == [[0.5, 1.5, -2.0], [0.5, 1.5, -2.0], [1, 2, 3]]
    assert vectors.get_vecs_by_tokens("cat").shape == (3,)
    assert vectors.get_vecs_by_tokens([]).shape == (0, 3)


def test_vectors_are_kept_as_tensors(folder):
    GloVe("6B", 3, cache=folder)
    assert (folder / "glove.6B.3d.txt.pt").is_file()
    file = folder / "glove.6B.3d.txt"
    age = file.stat().st_mtime
    file.write_text("nonsense")
    os.utime(file, (age - 10, age - 10))
    assert GloVe("6B", 3, cache=folder).itos == ["the", "cat", "Café"]
    os.utime(file, (age + 100, age + 100))  # a newer file is read again
    with pytest.raises(VectorFileError):
        GloVe("6B", 3, cache=folder)
    torch.save([1], folder / "glove.6B.3d.txt.pt")
    os.utime(file, (age - 10, age - 10))
    with pytest.raises(CheckpointError, match="holds no vectors\n  hint: delete it"):
        GloVe("6B", 3, cache=folder)


def test_fewer_vectors_and_unknown_words(folder):
    vectors = GloVe("6B", 3, cache=folder, max_vectors=1, unk_init=lambda v: torch.ones_like(v))
    assert vectors.itos == ["the"] and vectors["cat"].tolist() == [1, 1, 1]
    with pytest.raises(InvalidValueError, match="max_vectors must be at least 1"):
        GloVe("6B", 3, cache=folder, max_vectors=0)


def test_fasttext_has_a_header(tmp_path):
    (tmp_path / "wiki.de.vec").write_text("2 3\nder 1 2 3 \ndie 4 5 6 \n")
    assert FastText("de", cache=tmp_path)["die"].tolist() == [4, 5, 6]


def test_vectors_of_character_ngrams(tmp_path):
    lines = ["2gram-ab 1 2", "2gram-#BEGIN#a 3 4", "3gram-ab#END# 5 9"]
    (tmp_path / "charNgram.txt").write_text("\n".join(lines))
    vectors = CharNGram(cache=tmp_path)
    assert vectors["ab"].tolist() == [[3, 5]] and vectors["xyz"].tolist() == [[0, 0]]


def test_missing_vectors(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"(?s)glove\.6B\.50d\.txt is not there.*nothing"):
        GloVe("6B", 50, cache=tmp_path)
    with pytest.raises(FileNotFoundError, match=r"\(of glove\.6B\.zip\)"):
        pretrained_aliases["glove.6B.50d"](cache=tmp_path)
    with pytest.raises(FileNotFoundError, match=r"mine\.vec"):
        Vectors("mine.vec", cache=tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"the 1 2\ncat 1\n", r"line 2 of .* has another count of numbers"),
        (b"the 1 2\ncat 1 x\n", r"line 2 of .* is damaged: could not convert"),
        (b"the 1 2\n\ncat 1 nan\n", r"line 3 of .* has a number that is not finite"),
        (b"the 1 2\n\xff\xfe 1 \xff\n", r"line 2 of .* is damaged"),
        (b"the 1 2\ncat 1 2 3\n", r"(?s)line 2 of .*'cat'.*2 numbers.*= 3"),
        (b"\n\n", "has no vectors"),
        (b"", "has no vectors"),
        (b"\x00\x01\x02", "another count"),
    ],
)
def test_damaged_vectors(tmp_path, text, message):
    (tmp_path / "v.txt").write_bytes(text)
    with pytest.raises(VectorFileError, match=message):
        Vectors("v.txt", cache=tmp_path)
    assert not (tmp_path / "v.txt.pt").exists()


def test_words_that_are_no_utf8_are_left_out(tmp_path):
    (tmp_path / "v.txt").write_bytes(b"the 1 2\n\xff\xfe 3 4\ncat 5 6\n")
    with pytest.warns(UserWarning, match=r"1 words of .*v\.txt are not in UTF-8"):
        vectors = Vectors("v.txt", cache=tmp_path)
    assert vectors.itos == ["the", "cat"] and vectors["cat"].tolist() == [5, 6]


def test_compressed_vectors(tmp_path):
    data = gzip.compress(b"the 1 2\ncat 3 4\n" * 50)
    (tmp_path / "v.vec.gz").write_bytes(data)
    assert Vectors("v.vec.gz", cache=tmp_path)["cat"].tolist() == [3, 4]
    for damaged in (data[:30], b"nonsense", data[:20] + b"\xff\xff" + data[22:]):
        (tmp_path / "w.gz").write_bytes(damaged)
        with pytest.raises(VectorFileError, match=r"w\.gz is no complete \.gz"):
            Vectors("w.gz", cache=tmp_path)


def test_a_cache_of_torchtext(tmp_path):
    from tests.oracle import require_torch

    pytorch = require_torch()
    (tmp_path / "v.txt").write_text("a 1 2\n")
    kept = (["b"], {"b": 0}, pytorch.tensor([[3.0, 4.0]]), 2)
    pytorch.save(kept, tmp_path / "v.txt.pt")
    assert Vectors("v.txt", cache=tmp_path)["b"].tolist() == [3, 4]
