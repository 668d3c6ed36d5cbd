"""Programs as the tutorials write them: they read small files, and their losses fall."""

from __future__ import annotations

import random

import edutorch as torch
from edutorch import nn
from edutorch.nn import functional as F
from edutorch.text import data, legacy
from edutorch.text.data.utils import get_tokenizer
from edutorch.text.datasets import AG_NEWS, WikiText2
from edutorch.text.vocab import build_vocab_from_iterator
from edutorch.utils.data import DataLoader

TOPICS = {
    1: "minister election treaty border parliament",
    2: "goal match team coach stadium",
    3: "profit shares bank market merger",
    4: "planet software chip telescope genome",
}


def make_sentence(words: str) -> str:
    return "The " + " of the ".join(random.sample(words.split(), 3))


def test_news_are_classified(tmp_path):
    """The tutorial on text classification: EmbeddingBag with offsets."""
    random.seed(0)
    torch.manual_seed(0)
    for part, count in (("train", 30), ("test", 5)):
        rows = [f'"{n}","{make_sentence(w)}","x."' for n, w in TOPICS.items() for _ in range(count)]
        random.shuffle(rows)
        (tmp_path / f"{part}.csv").write_text("\n".join(rows))
    tokenizer = get_tokenizer("basic_english")
    train, test = AG_NEWS(root=tmp_path)
    words = build_vocab_from_iterator((tokenizer(text) for _, text in train), specials=["<unk>"])
    words.set_default_index(words["<unk>"])

    def collate(batch):
        labels = torch.tensor([label - 1 for label, _ in batch])
        texts = [torch.tensor(words(tokenizer(text))) for _, text in batch]
        offsets = torch.tensor([0, *map(len, texts[:-1])]).cumsum(0)
        return labels, torch.cat(texts), offsets

    bag, head = nn.EmbeddingBag(len(words), 16), nn.Linear(16, 4)
    optimizer = torch.optim.Adam([*bag.parameters(), *head.parameters()], lr=0.05)
    for _ in range(4):
        for labels, texts, offsets in DataLoader(train, batch_size=8, collate_fn=collate):
            loss = F.cross_entropy(head(bag(texts, offsets)), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    labels, texts, offsets = collate(list(test))
    assert (head(bag(texts, offsets)).argmax(1) == labels).float().mean().item() > 0.9


def test_a_language_model_learns_an_article(tmp_path):
    """The tutorial on language modelling: batches of columns, a window of rows."""
    torch.manual_seed(0)
    folder = tmp_path / "wikitext-2"
    folder.mkdir()
    (folder / "wiki.train.tokens").write_text(" \n = A cat = \n the cat sat on the mat . \n" * 30)
    tokenizer = get_tokenizer("basic_english")
    lines = WikiText2(root=tmp_path, split="train")
    words = build_vocab_from_iterator(map(tokenizer, lines), specials=["<unk>"])
    ids = torch.cat([torch.tensor(words(tokenizer(line)), dtype=torch.long) for line in lines])
    columns = ids[: len(ids) // 4 * 4].view(4, -1).t().contiguous()
    embed, rnn, head = nn.Embedding(len(words), 16), nn.LSTM(16, 32), nn.Linear(32, len(words))
    parameters = [p for layer in (embed, rnn, head) for p in layer.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.02)
    losses = []
    for _ in range(6):
        for start in range(0, len(columns) - 11, 10):
            now, after = columns[start : start + 10], columns[start + 1 : start + 11]
            loss = F.cross_entropy(head(rnn(embed(now))[0]).flatten(0, 1), after.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[-1] < 0.3 < 1.5 < losses[0]


def test_reviews_by_the_oldest_tutorial(tmp_path):
    """Fields, buckets and packed sequences."""
    random.seed(0)
    torch.manual_seed(0)
    moods = {"pos": "good fine great", "neg": "bad poor dull"}
    for part in ("train", "test"):
        rows = [
            f"{random.choice(words.split())} film {'indeed ' * random.randrange(4)}\t{mood}\n"
            for mood, words in moods.items()
            for _ in range(20)
        ]
        (tmp_path / f"{part}.tsv").write_text("".join(rows))
    text = data.Field(tokenize="basic_english", include_lengths=True)
    label = data.LabelField(dtype=torch.float)
    train, test = legacy.data.TabularDataset.splits(
        path=tmp_path, train="train.tsv", test="test.tsv", format="tsv",
        fields=[("text", text), ("label", label)],
    )  # fmt: skip
    text.build_vocab(train, max_size=1000)
    label.build_vocab(train)
    loader, test_loader = data.BucketIterator.splits(
        (train, test), batch_size=8, sort_within_batch=True,
        sort_key=lambda example: len(example.text),
    )  # fmt: skip
    pad = text.vocab.stoi[text.pad_token]
    embed, rnn = nn.Embedding(len(text.vocab), 8, padding_idx=pad), nn.LSTM(8, 8)
    head = nn.Linear(8, 1)
    parameters = [p for layer in (embed, rnn, head) for p in layer.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.05)

    def predict(batch):
        ids, lengths = batch.text
        packed = nn.utils.rnn.pack_padded_sequence(embed(ids), lengths)
        return head(rnn(packed)[1][0][-1]).squeeze(1)

    for _ in range(6):
        for batch in loader:
            loss = F.binary_cross_entropy_with_logits(predict(batch), batch.label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    correct = [((predict(b) > 0) == (b.label > 0.5)).float().mean().item() for b in test_loader]
    assert sum(correct) / len(correct) > 0.9
