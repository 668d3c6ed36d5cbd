"""The tokenizers against HuggingFace's, token for token; training, files, bad input."""

from __future__ import annotations

import json
import math
import re
import sys
from functools import cache
from typing import Any

import pytest

from edutorch.errors import ArgumentError, DimError, InvalidValueError, ValueRangeError
from edutorch.text.tokenizers import BPE, TokenizerFileError, Unigram, WordPiece
from edutorch.text.tokenizers.bpe import byte_characters, word_pattern
from edutorch.text.tokenizers.tokenizer import Tokenizer
from edutorch.text.tokenizers.unigram import expected_counts, seed_scores
from edutorch.text.tokenizers.wordpiece import SPECIAL_TOKENS, normalize, split_punctuation
from tests.text.sentences import HARD, load_sentences, manual

VOCAB_SIZE = 800


@cache
def library() -> Any:
    return pytest.importorskip("tokenizers", reason="needs the extra `text`")


def trained_bpe() -> Any:
    """Return GPT-2's kind of tokenizer, trained on the manual by `tokenizers`."""
    splitters = library().pre_tokenizers
    fast = library().Tokenizer(library().models.BPE())
    fast.pre_tokenizer = splitters.ByteLevel(add_prefix_space=False)
    fast.decoder = library().decoders.ByteLevel()
    trainer = library().trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE, initial_alphabet=splitters.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>"], show_progress=False,
    )  # fmt: skip
    fast.train_from_iterator(manual()[:20], trainer)
    return fast


def trained_wordpiece() -> Any:
    """Return BERT's kind of tokenizer."""
    fast = library().Tokenizer(library().models.WordPiece(unk_token="[UNK]"))
    fast.normalizer = library().normalizers.BertNormalizer()
    fast.pre_tokenizer = library().pre_tokenizers.BertPreTokenizer()
    fast.decoder = library().decoders.WordPiece()
    trainer = library().trainers.WordPieceTrainer(
        vocab_size=VOCAB_SIZE, special_tokens=list(SPECIAL_TOKENS), show_progress=False
    )
    fast.train_from_iterator(manual()[:20], trainer)
    fast.post_processor = library().processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )  # fmt: skip
    return fast


def trained_unigram() -> Any:
    """Return SentencePiece's kind of tokenizer."""
    fast = library().Tokenizer(library().models.Unigram())
    fast.pre_tokenizer = library().pre_tokenizers.Metaspace()
    fast.decoder = library().decoders.Metaspace()
    trainer = library().trainers.UnigramTrainer(
        vocab_size=VOCAB_SIZE, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False
    )
    fast.train_from_iterator(manual()[:20], trainer)
    return fast


CLASSES: dict[str, tuple[type[Tokenizer], Any]] = {
    "BPE": (BPE, trained_bpe),
    "WordPiece": (WordPiece, trained_wordpiece),
    "Unigram": (Unigram, trained_unigram),
}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory) -> dict[str, tuple[Tokenizer, Any]]:
    """Return each of our tokenizers, read from the file of a trained one, and that one."""
    folder = tmp_path_factory.mktemp("tokenizers")
    result = {}
    for name, (own, train) in CLASSES.items():
        fast = train()
        fast.save(str(folder / f"{name}.json"))
        result[name] = own.load(folder / f"{name}.json"), fast
    return result


def assert_equal_to(own: Tokenizer, fast: Any, texts: list[str]) -> None:
    """Both must have the same tokens, the same ids, and the same text again."""
    for text, expected in zip(texts, fast.encode_batch(texts), strict=True):
        assert own.encode(text) == expected.ids, text
        plain = fast.encode(text, add_special_tokens=False)
        assert [own.vocab.get(token) for token in own.tokenize(text)] == [
            own.vocab.get(token) for token in plain.tokens
        ], text
        assert own.decode(expected.ids) == fast.decode(expected.ids), text


@pytest.mark.parametrize("name", CLASSES)
def test_equal_to_tokenizers(pairs, name):
    own, fast = pairs[name]
    texts = load_sentences(500)
    assert_equal_to(own, fast, texts)
    handed_over = own.to_fast()
    for text in texts:
        assert handed_over.encode(text).ids == own.encode(text), text


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_equal_to_tokenizers_on_ten_thousand_sentences(pairs, name):
    texts = load_sentences(10_000)
    assert len(texts) == 10_000
    assert_equal_to(*pairs[name], texts)


@pytest.mark.parametrize("name", CLASSES)
def test_saved_and_loaded_tokenizers_are_equal(pairs, name, tmp_path):
    own, _ = pairs[name]
    own.save(tmp_path / "tokenizer.json")
    loaded = type(own).load(tmp_path / "tokenizer.json")
    assert loaded.to_dict() == own.to_dict() and len(loaded) == len(own)
    assert library().Tokenizer.from_file(str(tmp_path / "tokenizer.json")).get_vocab() == own.vocab
    assert repr(own) == f"{name}({VOCAB_SIZE} tokens)"


def test_two_texts(pairs):
    for name in CLASSES:
        own, fast = pairs[name]
        ids = own.encode("the first text", "and the second")
        assert ids == fast.encode("the first text", "and the second").ids
        assert own.encode("a", "b", add_special_tokens=False) == (
            fast.encode("a", "b", add_special_tokens=False).ids
        )
        if isinstance(own, WordPiece):
            encoding = fast.encode("the first text", "and the second")
            assert own.token_type_ids(ids) == encoding.type_ids
            assert own.token_type_ids([7, 8]) == [0, 0] and own.token_type_ids([]) == []


def test_special_tokens_are_left_out_of_the_text(pairs):
    own, fast = pairs["BPE"]
    ids = own.encode("one<|endoftext|>two")
    assert own.decode(ids) == "onetwo" == fast.decode(ids)
    assert own.decode(ids, skip_special_tokens=False) == "one<|endoftext|>two"


# Training ----------------------------------------------------------------------------------


def test_bpe_learns_the_same_merges(pairs):
    own, _ = pairs["BPE"]
    trained = BPE.train(manual()[:20], VOCAB_SIZE, ["<|endoftext|>"])
    assert trained.merges == own.merges and trained.vocab == own.vocab


def test_wordpiece_learns_nearly_the_same(pairs):
    """Of equally frequent pairs, `tokenizers` takes one by the order of a hash table."""
    trained = WordPiece.train(manual()[:20], VOCAB_SIZE)
    assert len(trained) == VOCAB_SIZE
    assert len(trained.vocab.keys() & pairs["WordPiece"][0].vocab.keys()) > 0.95 * VOCAB_SIZE
    assert trained.decode(trained.encode("The statement returns.")) == "the statement returns."


def test_unigram_needs_no_more_tokens_than_that_of_tokenizers(pairs):
    texts = manual()[:4]
    trained = Unigram.train(texts, 300)
    assert 290 <= len(trained) <= 300
    fast = library().Tokenizer.from_str(pairs["Unigram"][1].to_str())
    trainer = library().trainers.UnigramTrainer(
        vocab_size=300, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False
    )
    fast.train_from_iterator(texts, trainer)
    ours = sum(len(trained.encode(text)) for text in texts)
    theirs = sum(len(fast.encode(text).ids) for text in texts)
    assert ours <= 1.01 * theirs
    from_file = library().Tokenizer.from_str(json.dumps(trained.to_dict()))
    for text in texts:
        assert trained.decode(trained.encode(text)) == text
        assert from_file.encode(text).ids == trained.encode(text)


def test_expected_counts_are_those_of_all_splits():
    """By hand: "aab" has four splits with these tokens."""
    scores = seed_scores({"aab": 2, "ab": 1}, 2, 10)
    assert set(scores) == {"a", "b", "aa", "ab"}
    p = {token: math.exp(score) for token, score in scores.items()}
    splits = [("a", "a", "b"), ("aa", "b"), ("a", "ab")]
    weights = [1.0] * 3
    for index, split in enumerate(splits):
        for token in split:
            weights[index] *= p[token]
    counts = expected_counts({"aab": 3}, scores, 2)
    for token, count in counts.items():
        expected = sum(w * split.count(token) for w, split in zip(weights, splits, strict=True))
        assert count == pytest.approx(3 * expected / sum(weights))


def test_training_needs_room_for_the_characters():
    with pytest.raises(InvalidValueError, match=r"(?s)too small.*vocab_size  = 100.*needed"):
        BPE.train(["abc"], 100)
    for own in (WordPiece, Unigram):
        with pytest.raises(InvalidValueError, match="too small for the characters"):
            own.train(["abc"], 3)
    with pytest.raises(InvalidValueError, match="between 0 and 1"):
        Unigram.train(["abc"], 10, shrinking_factor=1.0)


def test_training_without_text():
    assert BPE.train([], 256).encode("é") == [
        sorted(byte_characters()).index(c) for c in ("Ã", "©")
    ]
    assert WordPiece.train([], 5).tokenize("x") == ["[UNK]"]
    assert Unigram.train([], 5).tokenize("x") == ["▁x"]


# Parts -------------------------------------------------------------------------------------


def test_words_are_those_of_the_original_pattern():
    """With the package `regex`, where it is installed."""
    regex = pytest.importorskip("regex", reason="compares with the package `regex`")
    original = regex.compile(
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    )
    for text in load_sentences(2000):
        if not set(text) & set("\x1c\x1d\x1e\x1f"):  # white space for `regex`, not for Rust
            assert word_pattern().findall(text) == original.findall(text)


def test_every_character_is_in_a_word():
    """Of all of Unicode: letters and numbers as their categories say."""
    import unicodedata

    for code in [*range(0x20), *range(0x21, 0xD800, 7), *range(0xE000, sys.maxunicode + 1, 61)]:
        character = chr(code)
        category = unicodedata.category(character)[0]
        words = word_pattern().findall(f"a{character}1")
        expected = {"L": [f"a{character}", "1"], "N": ["a", f"{character}1"]}
        assert words == expected.get(category, ["a", character, "1"]), hex(code)


def test_bert_cleans_characters_as_tokenizers_does():
    """Of the first 1,536 and others: later ones may differ by the version of Unicode."""
    cleaner = library().normalizers.BertNormalizer()
    splitter = library().pre_tokenizers.BertPreTokenizer()
    for code in [*range(0x600), *range(0x2000, 0x2060), 0x3000, 0x4E00, 0x2B920, 0xFFFD, 0x1F600]:
        text = f"a{chr(code)}b"
        cleaned = normalize(text, lowercase=True, strip_accents=True)
        assert cleaned == cleaner.normalize_str(text), hex(code)
        words = [word for word, _ in splitter.pre_tokenize_str(cleaned)]
        assert list(split_punctuation(cleaned)) == words, hex(code)


def test_wordpiece_settings():
    vocab = {token: index for index, token in enumerate([*SPECIAL_TOKENS, "Ca", "ca", "Ça", "ç"])}
    assert WordPiece(vocab).tokenize("Ça") == ["ca"]
    assert WordPiece(vocab, lowercase=False).tokenize("Ça") == ["Ça"]
    assert WordPiece(vocab, lowercase=False, strip_accents=True).tokenize("Ça") == ["Ca"]
    assert WordPiece(vocab, strip_accents=False).tokenize("Ç") == ["ç"]


# Files -------------------------------------------------------------------------------------


def test_vocabulary_files(tmp_path):
    bpe = BPE.train(manual()[:3], 300, ["<|endoftext|>"])
    bpe.save_files(tmp_path)
    read = BPE.from_files(
        tmp_path / "vocab.json", tmp_path / "merges.txt", special_tokens=["<|endoftext|>"]
    )
    assert read.to_dict() == bpe.to_dict()
    library_file = library().models.BPE.from_file(
        str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt")
    )
    assert [t.value for t in library_file.tokenize("Ġstatement")] == bpe.split_word("Ġstatement")
    words = WordPiece.train(manual()[:3], 300)
    words.save_files(tmp_path)
    assert WordPiece.from_files(tmp_path / "vocab.txt").to_dict() == words.to_dict()


def test_damaged_files(tmp_path):
    file = tmp_path / "tokenizer.json"
    with pytest.raises(FileNotFoundError):
        BPE.load(file)
    cases = {
        "{": "is not JSON",
        "[]": "holds a list, not an object",
        "{}": r"is no tokenizer\.json \(KeyError\('model'\)\)",
        '{"model": {"type": "BPE"}, "pre_tokenizer": {"type": "ByteLevel"}}': "KeyError",
        '{"model": {"type": "BPE", "vocab": {}, "merges": []}}': "does not split a text as GPT-2",
        '{"model": {"type": "WordPiece"}}': r"(?s)another kind of tokenizer.*'BPE'.*'WordPiece'",
        '{"model": {"type": "BPE"}, "added_tokens": [{"content": "x", "special": false}]}': (
            "added tokens that are not special"
        ),
    }
    for text, message in cases.items():
        file.write_text(text)
        with pytest.raises(TokenizerFileError, match=message):
            BPE.load(file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(TokenizerFileError, match="is not JSON"):
        BPE.load(file)


def test_other_pipelines_are_refused(tmp_path, pairs):
    for name, part, value, message in (
        ("WordPiece", "normalizer", None, "does not split a text as BERT's"),
        ("Unigram", "normalizer", {"type": "NFKC"}, "does more than to split a text at spaces"),
        ("Unigram", "pre_tokenizer", None, "does more than to split a text at spaces"),
    ):
        settings = pairs[name][0].to_dict()
        settings[part] = value
        (tmp_path / "t.json").write_text(json.dumps(settings))
        with pytest.raises(TokenizerFileError, match=message):
            CLASSES[name][0].load(tmp_path / "t.json")
    settings = pairs["Unigram"][0].to_dict()
    settings["model"]["unk_id"] = None
    (tmp_path / "t.json").write_text(json.dumps(settings))
    with pytest.raises(TokenizerFileError, match="no token for what is unknown"):
        Unigram.load(tmp_path / "t.json")


def test_what_a_tokenizer_would_do_beside_is_refused(tmp_path, pairs):
    """Silently left out, it would make other ids than the library."""
    own, _ = pairs["WordPiece"]
    changed = own.to_dict()
    changed["post_processor"]["single"].pop()
    roberta = {"type": "RobertaProcessing"}
    for name, settings, message in (
        ("WordPiece", changed, "do not stand as BERT's"),
        ("WordPiece", {**own.to_dict(), "post_processor": roberta}, "no post_processor 'RobertaP"),
        ("BPE", {**pairs["BPE"][0].to_dict(), "post_processor": roberta}, "as GPT-2's"),
        ("BPE", {**pairs["BPE"][0].to_dict(), "truncation": {"max_length": 3}}, "for truncation"),
        ("Unigram", {**pairs["Unigram"][0].to_dict(), "post_processor": roberta}, "does more than"),
    ):
        (tmp_path / "t.json").write_text(json.dumps(settings))
        with pytest.raises(TokenizerFileError, match=message):
            CLASSES[name][0].load(tmp_path / "t.json")
    (tmp_path / "t.json").write_text(json.dumps({**own.to_dict(), "post_processor": None}))
    plain = WordPiece.load(tmp_path / "t.json")
    fast = library().Tokenizer.from_file(str(tmp_path / "t.json"))
    assert plain.encode("the first") == fast.encode("the first").ids


def test_damaged_vocabulary_files(tmp_path):
    (tmp_path / "vocab.json").write_text('{"a": 0, "b": 1}')
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b\nab\n")
    with pytest.raises(TokenizerFileError, match=r"(?s)line 3 of .*merges\.txt.*'ab'"):
        BPE.from_files(tmp_path / "vocab.json", tmp_path / "merges.txt")
    (tmp_path / "vocab.txt").write_text("[UNK]\na\nb\na\n")
    with pytest.raises(TokenizerFileError, match=r"line 4 of .*vocab\.txt repeats line 2: 'a'"):
        WordPiece.from_files(tmp_path / "vocab.txt")
    (tmp_path / "vocab.txt").write_bytes(b"[UNK]\n\xff\n")
    with pytest.raises(TokenizerFileError, match="no text in UTF-8"):
        WordPiece.from_files(tmp_path / "vocab.txt")
    (tmp_path / "vocab.txt").write_text("a\n")
    with pytest.raises(InvalidValueError, match=r"has no token '\[UNK\]'"):
        WordPiece.from_files(tmp_path / "vocab.txt")


# Bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLASSES)
def test_bad_text(pairs, name):
    own, _ = pairs[name]
    with pytest.raises(ArgumentError, match=f"{name}: expected a str, got bytes"):
        own.encode(b"bytes")
    with pytest.raises(InvalidValueError, match="character 2 of the text is half of a surrogate"):
        own.encode("ab\ud83d")
    with pytest.raises(ArgumentError, match="expected a list of texts, got a single one"):
        own.encode_batch("text")
    with pytest.raises(DimError, match=f"no token has the id {VOCAB_SIZE}"):
        own.decode([VOCAB_SIZE])


def test_a_vocabulary_without_a_character():
    with pytest.raises(ValueRangeError, match=r"has no token 'Ã'\n  hint: train it with all char"):
        BPE({"a": 0}, []).encode("é")


def test_bad_vocabularies():
    with pytest.raises(InvalidValueError, match="two tokens of the vocabulary have one id"):
        BPE({"a": 0, "b": 0}, [])
    with pytest.raises(InvalidValueError, match="the id of the token 'a' is no integer"):
        BPE({"a": "0"}, [])
    with pytest.raises(InvalidValueError, match="has no token 'ab', which a merge makes"):
        BPE({"a": 0, "b": 1}, [("a", "b")])
    with pytest.raises(InvalidValueError, match=re.escape("has no token '<s>'")):
        BPE({"a": 0}, [], ["<s>"])


def test_without_the_extra(pairs, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r'pip install "edutorch\[text\]"'):
        pairs["BPE"][0].to_fast()


def test_the_hard_texts_are_among_the_sentences():
    assert load_sentences(500)[: len(HARD)] == HARD
