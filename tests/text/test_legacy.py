"""Fields, tables and bucket iterators, as the oldest tutorials use them."""

from __future__ import annotations

import importlib
import random
import subprocess
import sys
import textwrap

import pytest

import edutorch as torch
from edutorch.errors import InvalidValueError
from edutorch.text import data, datasets, legacy
from edutorch.text.legacy.data.dataset import TableError

ROWS = "pos\tA fine film indeed\nneg\tBad\npos\tVery very good film\nneg\tA bad film\n"


@pytest.fixture
def table(tmp_path):
    (tmp_path / "train.tsv").write_text(ROWS)
    (tmp_path / "test.tsv").write_text("neg\tUnheard of\n")
    return tmp_path


def make_fields(**options):
    return data.Field(lower=True, **options), data.LabelField()


def read(table, text, label):
    return data.TabularDataset.splits(
        path=table, train="train.tsv", test="test.tsv", format="tsv",
        fields=[("label", label), ("text", text)],
    )  # fmt: skip


def test_names_are_there_under_both_addresses():
    for name in legacy.data.__all__:
        assert getattr(data, name) is getattr(legacy.data, name)
    assert (
        legacy.datasets.Multi30k
        is importlib.import_module("edutorch.text.legacy.datasets").Multi30k
    )
    assert datasets.TranslationDataset is legacy.datasets.TranslationDataset
    with pytest.raises(AttributeError, match="no attribute 'IMBD'"):
        _ = datasets.IMBD


def test_any_module_may_be_imported_first():
    """They import each other: whichever comes first must not meet one that is half there."""
    code = """
        import importlib, sys
        for name in ("data", "datasets", "legacy", "legacy.data", "legacy.datasets", "data.utils"):
            for module in [name for name in sys.modules if name.startswith("edutorch.text")]:
                del sys.modules[module]
            importlib.import_module(f"edutorch.text.{name}")
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_classifier_reads_its_batches(table):
    text, label = make_fields(include_lengths=True)
    train, test = read(table, text, label)
    text.build_vocab(train, max_size=4)
    label.build_vocab(train)
    assert text.vocab.itos == ["<unk>", "<pad>", "film", "a", "bad", "very"]
    assert label.vocab.itos == ["neg", "pos"] and text.vocab.freqs["film"] == 3
    random.seed(0)
    iterators = data.BucketIterator.splits(
        (train, test), batch_size=2, sort_key=lambda example: len(example.text),
        sort_within_batch=True, device="cpu",
    )  # fmt: skip
    batches = list(iterators[0])
    assert len(iterators[0]) == len(batches) == 2
    for batch in batches:
        ids, lengths = batch.text
        assert ids.shape == (lengths.max().item(), 2) and lengths.tolist() == sorted(lengths)[::-1]
        assert batch.label.dtype == torch.int64 and len(batch) == 2
        (words, _), labels = batch
        assert words is ids and labels is batch.label
    short = min(batches, key=lambda batch: batch.text[0].shape[0])
    assert short.text[0].t().tolist() == [[3, 4, 2], [4, 1, 1]]
    (test_batch,) = iterators[1]
    assert test_batch.text[0].t().tolist() == [[0, 0]]
    assert "[.label]: Tensor of size (1,)" in repr(test_batch)


def test_formats(tmp_path):
    text, label = make_fields()
    (tmp_path / "a.csv").write_text('text,label,id\n"one, two",pos,7\n')
    by_name = data.TabularDataset(
        tmp_path / "a.csv", "csv", {"text": ("t", text), "label": ("y", label)}
    )
    assert by_name[0].t == ["one,", "two"] and by_name[0].y == "pos"
    in_order = data.TabularDataset(
        tmp_path / "a.csv", "CSV", [("t", text), ("y", label), ("id", None)], skip_header=True
    )
    assert vars(in_order[0]) == vars(by_name[0]) and list(in_order.y) == ["pos"]
    (tmp_path / "a.json").write_text('{"text": "One", "label": "pos"}\n')
    both = {"text": [("words", text), ("raw", data.RawField())], "label": ("y", label)}
    (example,) = data.TabularDataset(tmp_path / "a.json", "json", both)
    assert (example.words, example.raw, example.y) == (["one"], "One", "pos")


def test_settings_of_fields():
    field = data.Field(
        init_token="<s>", eos_token="</s>", fix_length=5, batch_first=True, stop_words=["the"],
        tokenize=lambda text: text.split("-"),
    )  # fmt: skip
    rows = [field.preprocess("the-a-b-c-d"), field.preprocess("a")]
    assert rows == [["a", "b", "c", "d"], ["a"]]
    assert field.pad(rows) == [
        ["<s>", "a", "b", "c", "</s>"], ["<s>", "a", "</s>", "<pad>", "<pad>"]
    ]  # fmt: skip
    field.pad_first = field.truncate_first = True
    assert field.pad(rows)[0] == ["<s>", "b", "c", "d", "</s>"]
    assert field.pad(rows)[1] == ["<pad>", "<pad>", "<s>", "a", "</s>"]
    numbers_only = data.Field(sequential=False, use_vocab=False, dtype=torch.float32)
    assert numbers_only.process(["1.5", "2"]).tolist() == [1.5, 2.0]
    ids = data.Field(use_vocab=False, pad_token="0", batch_first=True)
    assert ids.process([["3", "4"], ["5"]]).tolist() == [[3, 4], [5, 0]]
    doubled = data.Field(batch_first=True, postprocessing=lambda rows, vocab: [r * 2 for r in rows])
    doubled.build_vocab([["a"]])
    assert doubled.process([["a"]]).tolist() == [[2, 2]]


def test_texts_from_numbers():
    field = data.ReversibleField(init_token="<s>", eos_token="</s>")
    field.build_vocab([["to", "be"]])
    batch = field.process([["to", "be"], ["be"]])
    assert field.reverse(batch) == ["to be", "be"]


def test_vectors_of_a_vocabulary(tmp_path):
    (tmp_path / "v.txt").write_text("to 1 2\nbe 3 4\n")
    vectors = legacy.vocab.Vectors("v.txt", cache=tmp_path)
    field = data.Field()
    field.build_vocab([["to", "or"]], vectors=vectors, unk_init=torch.Tensor.normal_)
    assert field.vocab.vectors.tolist() == [[0, 0], [0, 0], [0, 0], [1, 2]]
    field.vocab.set_vectors({"or": 0}, torch.ones(1, 2), 2)
    assert field.vocab.vectors.tolist() == [[0, 0], [0, 0], [1, 1], [0, 0]]
    with pytest.raises(InvalidValueError, match="there are no vectors 'glove'"):
        field.build_vocab([["to"]], vectors="glove")
    with pytest.raises(FileNotFoundError, match=r"glove\.6B\.100d\.txt"):
        field.build_vocab([["to"]], vectors="glove.6B.100d", vectors_cache=tmp_path)
    other = legacy.vocab.Vocab({"new": 1}, specials=[])
    field.vocab.extend(other)
    assert field.vocab["new"] == 4


def test_splitting(table):
    text, label = make_fields()
    train, _ = read(table, text, label)
    first, second = train.split(0.5, random_state=random.Random(1).getstate())
    assert len(first) == len(second) == 2
    assert {id(e) for e in first} | {id(e) for e in second} == {id(e) for e in train}
    again, _ = train.split(0.5, random_state=random.Random(1).getstate())
    assert again.examples == first.examples
    parts = train.split([2, 1, 1], stratified=False)
    assert [len(part) for part in parts] == [2, 1, 1]
    one, two = train.split(0.5, stratified=True)
    assert sorted(one.label) == sorted(two.label) == ["neg", "pos"]
    for ratio in (1.5, [1], [0, 0], [-1, 2], "half"):
        with pytest.raises(InvalidValueError, match="split_ratio must be a share"):
            train.split(ratio)


def test_language_modelling(tmp_path):
    for part in ("train", "valid", "test"):
        (tmp_path / f"ptb.{part}.txt").write_text("a b c\nd e f g\n")
    field = data.Field()
    train, valid, test = datasets.PennTreebank.splits(field, root=tmp_path)
    assert train[0].text == [*"abc", "<eos>", *"defg", "<eos>"]
    field.build_vocab(train)
    iterators = data.BPTTIterator.splits((train, valid, test), batch_size=2, bptt_len=3)
    batches = list(iterators[0])
    assert len(iterators[0]) == len(batches) == 2
    assert [tuple(batch.text.shape) for batch in batches] == [(3, 2), (1, 2)]
    for batch in batches:
        assert batch.text[1:].tolist() == batch.target[:-1].tolist()
    words = [[field.vocab.itos[i] for i in row] for row in batches[0].text.tolist()]
    assert words == [["a", "e"], ["b", "f"], ["c", "g"]]
    assert len(datasets.PennTreebank.iters(batch_size=2, bptt_len=3, root=tmp_path)) == 3


def test_translation(tmp_path):
    folder = tmp_path / "multi30k"
    folder.mkdir()
    for part in ("train", "val", "test2016"):
        (folder / f"{part}.de").write_text("Ein Hund\n\nZwei\n")
        (folder / f"{part}.en").write_text("A dog\nlost\nTwo\n")
    source, target = data.Field(lower=True), data.Field()
    train, _, test = datasets.Multi30k.splits(
        exts=(".de", ".en"), fields=(source, target), root=tmp_path
    )
    assert [(e.src, e.trg) for e in train] == [(["ein", "hund"], ["A", "dog"]), (["zwei"], ["Two"])]
    assert len(test) == 2 and train.sort_key(train[0]) == (2, 2)
    with pytest.raises(FileNotFoundError, match=r"train\.fr"):
        datasets.Multi30k.splits(exts=(".fr", ".en"), fields=(source, target), root=tmp_path)


def test_film_reviews(tmp_path):
    for part in ("train", "test"):
        for label, words in (("pos", "good"), ("neg", "bad")):
            (tmp_path / "aclImdb" / part / label).mkdir(parents=True)
            (tmp_path / "aclImdb" / part / label / "0_1.txt").write_text(f"A {words} film")
    text, label = make_fields()
    train, _ = datasets.IMDB.splits(text, label, root=tmp_path)
    assert [(e.text[1], e.label) for e in train] == [("good", "pos"), ("bad", "neg")]
    batch = next(iter(datasets.IMDB.iters(batch_size=2, root=tmp_path)[1]))
    assert batch.text.shape == (3, 2)


def test_batches_by_size():
    lengths = [3, 1, 2, 4, 1]
    sizes = list(data.batch(lengths, 4, lambda new, count, size: size + new))
    assert sizes == [[3, 1], [2], [4], [1]]
    assert list(data.batch([], 2)) == []


# Bad input -----------------------------------------------------------------------------------


def test_bad_tables(tmp_path):
    text, label = make_fields()
    fields = [("label", label), ("text", text)]
    path = tmp_path / "t.tsv"
    path.write_text("pos\tfine\nneg\n")
    with pytest.raises(TableError, match=r"(?s)line 2 of .*t\.tsv.*a value for each field"):
        data.TabularDataset(path, "tsv", fields)
    path.write_text('{"text": "a"}\nnonsense\n')
    with pytest.raises(TableError, match=r"line 2 of .*t\.tsv: Expecting value"):
        data.TabularDataset(path, "json", {"text": ("t", text)})
    with pytest.raises(TableError, match="Specified key words was not found in the input data"):
        data.TabularDataset(path, "json", {"words": ("t", text)})
    path.write_text("a,b\n1,2\n")
    with pytest.raises(TableError, match=r"has no column 'c'\n  columns  = a, b"):
        data.TabularDataset(path, "csv", {"c": ("c", text)})
    with pytest.raises(InvalidValueError, match="there is no format 'xml'"):
        data.TabularDataset(path, "xml", fields)
    with pytest.raises(InvalidValueError, match="needs the header"):
        data.TabularDataset(path, "csv", {"a": ("a", text)}, skip_header=True)
    with pytest.raises(FileNotFoundError):
        data.TabularDataset(tmp_path / "none.csv", "csv", fields)


def test_bad_fields_and_iterators(table):
    text, label = make_fields()
    train, _ = read(table, text, label)
    with pytest.raises(InvalidValueError, match=r"no vocabulary yet\n  hint: field\.build_vocab"):
        text.process([["a"]])
    with pytest.raises(InvalidValueError, match="sorting needs a sort_key"):
        data.Iterator(train, 2, train=False)
    with pytest.raises(InvalidValueError, match="batch_size must be at least 1"):
        data.BucketIterator(train, 0)
    label.build_vocab(train)
    with pytest.raises(KeyError, match="the word 'neutral' is unknown"):
        label.process(["neutral"])
    with pytest.raises(AttributeError, match="no attribute 'txt'"):
        _ = train.txt
    with pytest.raises(NotImplementedError, match="number of batches is unknown"):
        len(data.Iterator(train, 2, batch_size_fn=lambda new, count, size: count))
    text.build_vocab(train)
    by_words = data.Iterator(
        train, 4, batch_size_fn=lambda new, count, size: size + len(new.text), train=False,
        sort_key=lambda example: len(example.text),
    )  # fmt: skip
    assert [len(batch) for batch in list(by_words)] == [2, 1, 1]
