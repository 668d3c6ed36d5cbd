"""Splitting texts, BLEU, transforms, and data sets from their files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import edutorch as torch
from edutorch import text
from edutorch.errors import ArgumentError, InvalidValueError
from edutorch.text import datasets, functional, transforms
from edutorch.text.data import (
    bleu_score,
    get_tokenizer,
    interleave_keys,
    ngrams_iterator,
    to_map_style_dataset,
)
from edutorch.text.datasets import DataFileError
from edutorch.text.tokenizers import BPE, WordPiece
from edutorch.text.vocab import Vocab


def test_submodules_are_loaded_on_demand():
    assert text.data.get_tokenizer is get_tokenizer
    with pytest.raises(AttributeError, match="no attribute 'dat'"):
        _ = text.dat
    with pytest.raises(AttributeError, match="no attribute 'Feld'"):
        _ = text.data.Feld


def test_basic_english():
    split = get_tokenizer("basic_english")
    assert split("Hello, World! It's <br />a \"test\" (no. 1); isn't: it?") == (
        "hello , world ! it ' s a test ( no . 1 ) isn ' t it ?".split()
    )
    assert split("") == [] and split("  \t\n") == []


def test_other_tokenizers():
    assert get_tokenizer(None)("a  b\nc") == ["a", "b", "c"]
    assert get_tokenizer(list)("ab") == ["a", "b"]
    with pytest.raises(InvalidValueError, match="basic_english is for English, not for 'de'"):
        get_tokenizer("basic_english", language="de")
    with pytest.raises(InvalidValueError, match=r"get_tokenizer\(sacremoses\.MosesTokenizer"):
        get_tokenizer("moses")
    with pytest.raises(InvalidValueError, match="there is no tokenizer 'basic'"):
        get_tokenizer("basic")


def test_spacy_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "spacy", None)
    with pytest.raises(ImportError, match="pip install spacy"):
        get_tokenizer("spacy", language="de_core_news_sm")


def test_ngrams():
    assert list(ngrams_iterator(["a", "b", "c"], 3)) == ["a", "b", "c", "a b", "b c", "a b c"]
    assert list(ngrams_iterator(["a"], 2)) == ["a"] and list(ngrams_iterator([], 2)) == []
    assert interleave_keys(3, 4) == 0b011010


def test_bleu():
    perfect = ["the", "cat", "sat", "on", "the", "mat"]
    assert bleu_score([perfect], [[perfect]]) == pytest.approx(1.0)
    assert bleu_score([["a", "b"]], [[["c", "d"]]]) == 0.0
    # Each n-gram counts only as often as it stands in a reference: 2 of 7, Papineni's example.
    the = ["the"] * 7
    references = [["the", "cat", "is", "on", "the", "mat"], ["there", "is", "a", "cat"]]
    assert bleu_score([the], [references], max_n=1, weights=[1.0]) == pytest.approx(2 / 7)
    # Too short: exp(1 - 6/5), times the geometric mean of 5/5, 4/4, 3/3, 2/2.
    assert bleu_score([perfect[:5]], [[perfect]]) == pytest.approx(2.718281828 ** (1 - 6 / 5))
    assert bleu_score([], [], max_n=1, weights=[1.0]) == 0.0


def test_bad_calls_of_bleu():
    with pytest.raises(InvalidValueError, match=r"(?s)a weight for each n.*weights +=? *4?"):
        bleu_score([["a"]], [[["a"]]], max_n=2)
    with pytest.raises(InvalidValueError, match=r"references +=? *2"):
        bleu_score([["a"]], [[["a"]], [["b"]]])
    with pytest.raises(InvalidValueError, match="translation 1 has no reference"):
        bleu_score([["a"], ["b"]], [[["a"]], []])


# Functional and transforms -----------------------------------------------------------------


def test_lists_become_tensors():
    assert functional.to_tensor([1, 2]).tolist() == [1, 2]
    padded = functional.to_tensor([[1, 2], [3]], padding_value=9)
    assert padded.tolist() == [[1, 2], [3, 9]] and padded.dtype == torch.int64
    assert functional.to_tensor([], dtype=torch.float32).shape == (0,)
    with pytest.raises(InvalidValueError, match=r"(?s)different lengths.*\[2, 1\].*padding_value"):
        functional.to_tensor([[1, 2], [3]])
    with pytest.raises(ArgumentError, match="expected a list, or a list of lists, got str"):
        functional.truncate("text", 2)
    with pytest.raises(InvalidValueError, match="must not be negative"):
        functional.truncate([1], -1)


def test_transforms_in_a_row():
    words = Vocab(["<pad>", "<s>", "</s>", "to", "be", "or"])
    transform = transforms.Sequential(
        transforms.VocabTransform(words), transforms.Truncate(2), transforms.AddToken(1),
        transforms.AddToken(2, begin=False), transforms.ToTensor(padding_value=0),
        transforms.PadTransform(5, 0),
    )  # fmt: skip
    assert transform([["to", "be", "or"], ["or"]]).tolist() == [[1, 3, 4, 2, 0], [1, 5, 2, 0, 0]]
    assert transform(["to"]).tolist() == [1, 3, 2, 0, 0]
    assert transforms.PadTransform(1, 0)(torch.tensor([1, 2])).tolist() == [1, 2]
    with pytest.raises(ArgumentError, match="VocabTransform: expected a Vocab, got dict"):
        transforms.VocabTransform({"a": 1})
    assert transforms.StrToIntTransform()([["1"], ["2", "3"]]) == [[1], [2, 3]]


def test_masks():
    torch.manual_seed(0)
    tokens = torch.randint(10, 100, (50, 40))
    tokens[:, 0], tokens[:, 30:] = 1, 2
    transform = transforms.MaskTransform(100, mask_idx=3, bos_idx=1, pad_idx=2)
    masked, targets, mask = transform(tokens)
    chosen = mask.bool()
    assert not chosen[:, 0].any() and not chosen[:, 30:].any()
    assert targets.tolist() == tokens[chosen].tolist()
    assert torch.equal(masked[~chosen], tokens[~chosen])
    assert 0.12 < chosen[:, 1:30].float().mean().item() < 0.18
    assert 0.7 < (masked[chosen] == 3).float().mean().item() < 0.9
    assert 0.04 < (masked[chosen] == targets).float().mean().item() < 0.2
    everything = transforms.MaskTransform(100, 3, 1, 2, mask_bos=True, mask_prob=1.0)
    assert everything(tokens)[2].sum().item() == 50 * 30


def test_labels(tmp_path):
    (tmp_path / "labels.txt").write_text("pos\nneg\n")
    labels = transforms.LabelToIndex(label_path=tmp_path / "labels.txt")
    assert labels("neg") == 1 and labels(["pos"]) == [0] and labels.label_names == ["pos", "neg"]
    with pytest.raises(InvalidValueError, match="either label_names or label_path"):
        transforms.LabelToIndex()


def test_tokenizers_as_transforms(tmp_path):
    bpe = BPE.train(["low lower lowest"], 260)
    bpe.save_files(tmp_path)
    transform = transforms.GPT2BPETokenizer(tmp_path / "vocab.json", tmp_path / "merges.txt")
    assert transform(["low", "x"]) == [[str(i) for i in bpe.encode(t)] for t in ("low", "x")]
    words = WordPiece.train(["Low lower"], 30)
    words.save_files(tmp_path)
    transform = transforms.BERTTokenizer(tmp_path / "vocab.txt", return_tokens=True)
    assert transform("LOWER") == words.tokenize("lower")


# Data sets -----------------------------------------------------------------------------------


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, contents in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(contents, encoding="utf-8")
    return folder


def test_ag_news(tmp_path):
    rows = '"3","Title","A ""quoted"" story,\\nwith more"\n"1","Second","Über"\n'
    write(tmp_path, {"AG_NEWS/ag_news_csv/train.csv": rows, "AG_NEWS/test.csv": '"4","t","d"\n'})
    train, test = datasets.AG_NEWS(root=tmp_path)
    expected = [(3, 'Title A "quoted" story,\\nwith more'), (1, "Second Über")]
    assert list(train) == expected == list(train)  # it can be read twice
    assert list(datasets.AG_NEWS(tmp_path, "test")) == [(4, "t d")] and repr(test).endswith(
        "'test')"
    )
    assert to_map_style_dataset(train)[1] == expected[1] and len(to_map_style_dataset(train)) == 2
    loader = torch.utils.data.DataLoader(train, batch_size=2, collate_fn=list)
    assert list(loader) == [expected]


@pytest.mark.parametrize("row", ['"5","t","d"', '"x","t"', '"1"', "", '"0","t"'])
def test_damaged_tables(tmp_path, row):
    write(tmp_path, {"train.csv": f'"1","fine","line"\n{row}\n' + '"2","a"\n' * (row == "")})
    if row:
        with pytest.raises(DataFileError, match=r"(?s)line 2 of .*train\.csv.*a class from 1 to 4"):
            list(datasets.AG_NEWS(tmp_path, "train"))
    else:
        with pytest.raises(DataFileError, match="line 2"):
            list(datasets.AG_NEWS(tmp_path, "train"))


def test_imdb(tmp_path):
    write(
        tmp_path,
        {"aclImdb/test/neg/0_2.txt": "Bad.", "aclImdb/test/pos/1_9.txt": "Good\nfilm.",
         "aclImdb/test/pos/0_9.txt": "First."},
    )  # fmt: skip
    assert list(datasets.IMDB(tmp_path, "test")) == [(1, "Bad."), (2, "First."), (2, "Good\nfilm.")]


def test_language_models(tmp_path):
    write(
        tmp_path,
        {"wikitext-2/wiki.train.tokens": " \n = Title = \nText <unk> .\n",
         "ptb.valid.txt": " one <unk> \n two\n"},
    )  # fmt: skip
    assert list(datasets.WikiText2(tmp_path, "train")) == [" \n", " = Title = \n", "Text <unk> .\n"]
    assert list(datasets.PennTreebank(tmp_path, "valid")) == ["one <unk>", "two"]
    with pytest.raises(FileNotFoundError, match=r"(?s)wiki\.valid\.tokens.*wikitext-2-v1\.zip"):
        datasets.WikiText2(tmp_path)


def test_translations(tmp_path):
    write(tmp_path / "Multi30k", {"train.de": "Ein Hund\nZwei\n", "train.en": "A dog\nTwo\n"})
    assert list(datasets.Multi30k(tmp_path, "train")) == [("Ein Hund", "A dog"), ("Zwei", "Two")]
    swapped = datasets.Multi30k(tmp_path, "train", language_pair=("en", "de"))
    assert next(iter(swapped)) == ("A dog", "Ein Hund")
    write(tmp_path / "Multi30k", {"val.de": "a\nb\n", "val.en": "a\n"})
    with pytest.raises(DataFileError, match=r"val\.en ends before line 2 of .*val\.de"):
        list(datasets.Multi30k(tmp_path, "valid"))
    with pytest.raises(DataFileError, match=r"val\.en ends before line 2"):
        list(datasets.Multi30k(tmp_path, "valid", language_pair=("en", "de")))
    with pytest.raises(InvalidValueError, match="language_pair must be"):
        datasets.Multi30k(tmp_path, language_pair=("de", "fr"))


def test_sentences_tags_and_questions(tmp_path):
    question = {"question": "Who?", "answers": [{"text": "Ada", "answer_start": 3}]}
    paragraph = {"context": "By Ada.", "qas": [question, {"question": "Why?", "answers": []}]}
    write(
        tmp_path,
        {"SST-2/train.tsv": "sentence\tlabel\na fine film \t1\nno\t0\n",
         "SST-2/test.tsv": "index\tsentence\n0\tmaybe\n",
         "en-ud-v2/en-ud-tag.v2.dev.txt": "A\tDET\tDT\ndog\tNOUN\tNN\n\n\nYes\tINTJ\tUH\n",
         "train.txt": "He PRP B-NP\nis VBZ B-VP\n",
         "dev-v2.0.json": json.dumps({"data": [{"paragraphs": [paragraph]}]})},
    )  # fmt: skip
    assert list(datasets.SST2(tmp_path, "train")) == [("a fine film", 1), ("no", 0)]
    assert list(datasets.SST2(tmp_path, "test")) == [("maybe",)]
    assert list(datasets.UDPOS(tmp_path, "valid")) == [
        [["A", "dog"], ["DET", "NOUN"], ["DT", "NN"]], [["Yes"], ["INTJ"], ["UH"]]
    ]  # fmt: skip
    assert next(iter(datasets.CoNLL2000Chunking(tmp_path, "train")))[2] == ["B-NP", "B-VP"]
    assert list(datasets.SQuAD2(tmp_path, "dev")) == [
        ("By Ada.", "Who?", ["Ada"], [3]), ("By Ada.", "Why?", [""], [-1])
    ]  # fmt: skip


def test_damaged_data_files(tmp_path):
    write(
        tmp_path,
        {"SST-2/dev.tsv": "sentence\tlabel\nfine\t2\n", "train-v1.1.json": '{"data": [{}]}',
         "en-ud-v2/en-ud-tag.v2.test.txt": "A\tDET\n"},
    )  # fmt: skip
    with pytest.raises(DataFileError, match=r"line 2 of .*dev\.tsv is damaged: 'fine\\t2'"):
        list(datasets.SST2(tmp_path, "dev"))
    with pytest.raises(DataFileError, match="is not in SQuAD's format: KeyError"):
        list(datasets.SQuAD1(tmp_path, "train"))
    with pytest.raises(DataFileError, match=r"line 1 of .* has 2 columns, not 3"):
        list(datasets.UDPOS(tmp_path, "test"))
    (tmp_path / "ptb.test.txt").write_bytes(b"fine\n\xff\n")
    with pytest.raises(DataFileError, match=r"line 2 of .* is no text in UTF-8"):
        list(datasets.PennTreebank(tmp_path, "test"))


@pytest.mark.parametrize("name", [n for n in datasets.__all__ if n not in (
    "DataFileError", "LanguageModelingDataset", "TranslationDataset")])  # fmt: skip
def test_missing_data_sets_say_which_file_goes_where(name, tmp_path):
    dataset = getattr(datasets, name)
    with pytest.raises(FileNotFoundError) as caught:
        dataset(root=tmp_path)
    first, hint = str(caught.value).split("\n")
    assert first.startswith(f"datasets.{name}: {tmp_path / name}") and "is not there" in first
    assert hint.startswith("  hint: nothing is downloaded; unpack the ") and str(tmp_path) in hint
    with pytest.raises(InvalidValueError, match="there is no split 'training'"):
        dataset(root=tmp_path, split="training")
    assert dataset.__doc__
