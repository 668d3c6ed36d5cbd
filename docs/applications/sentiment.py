"""Sentiment analysis: does a sentence praise or complain?

The sentences are made up, and half of them turn their words round: "not good", "anything but
dull". A bag of words, the mean of word vectors, cannot know which word is turned; an LSTM, which
reads them in order, can. The adjectives stand in other pairs in the test. Real reviews are read by
`torchtext.datasets.IMDB`, from files that you put in place.

    python -m edutorch run docs/applications/sentiment.py
"""

import random

import torch
import torch.nn.functional as F
from torch import nn

GOOD = "good great lovely clever funny warm brilliant charming moving fresh".split()
BAD = "bad awful dull stupid boring cold clumsy tiresome flat stale".split()
SUBJECTS = "film plot ending music dialogue cast camera hero".split()
PLAIN = ["", "very ", "really ", "quite "]
TURNED = ["not ", "never ", "anything but ", "not at all "]
JOINTS = [" and the ", " while the "]
WORDS = sorted(
    set(" ".join([*GOOD, *BAD, *SUBJECTS, *TURNED, *PLAIN, *JOINTS, "the is but"]).split())
)
NUMBER = {word: number for number, word in enumerate(WORDS, start=1)}
LONGEST = 16


def write_clause(source: random.Random, is_praise: bool) -> str:
    """Return a statement such as "plot is not at all dull"."""
    is_turned = source.random() < 0.5
    adjective = source.choice(GOOD if is_praise != is_turned else BAD)
    return (
        f"{source.choice(SUBJECTS)} is {source.choice(TURNED if is_turned else PLAIN)}{adjective}"
    )


def write_review(source: random.Random) -> tuple[str, int]:
    """Return a sentence, and whether it praises. What comes after "but" is what counts."""
    is_praise = source.random() < 0.5
    last = write_clause(source, is_praise)
    if source.random() < 0.5:
        return f"the {write_clause(source, not is_praise)} but the {last}", int(is_praise)
    return f"the {write_clause(source, is_praise)}{source.choice(JOINTS)}{last}", int(is_praise)


def make_batch(source: random.Random, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the numbers of words (count, 16), with zeros in front, and the labels (count)."""
    texts, labels = zip(*[write_review(source) for _ in range(count)], strict=True)
    numbers = [[NUMBER[word] for word in text.split()] for text in texts]
    return torch.tensor([[0] * (LONGEST - len(row)) + row for row in numbers]), torch.tensor(labels)


class BagOfWords(nn.Module):
    """Two scores from the mean of the words' vectors.

    Shape: (batch, words) → (batch, 2).
    """

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(len(WORDS) + 1, width, padding_idx=0)
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.words(words))


class SentimentLSTM(nn.Module):
    """Two scores from the state behind the last word.

    Shape: (batch, words) → (batch, 2).
    """

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(len(WORDS) + 1, width, padding_idx=0)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, 2)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(self.words(words))
        return self.head(states[:, -1])


def train(model: nn.Module, steps: int = 400) -> float:
    """Train a model, and return its accuracy on 1,000 other sentences."""
    source = random.Random(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        words, labels = make_batch(source, 64)
        loss = F.cross_entropy(model(words), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        words, labels = make_batch(random.Random(1), 1000)
        return (model(words).argmax(1) == labels).float().mean().item()


def main() -> None:
    torch.manual_seed(0)
    bag, lstm = train(BagOfWords()), train(SentimentLSTM())
    print(f"sentiment: {lstm:.1%} of 1000 sentences are right; of a bag of words, {bag:.1%}")


if __name__ == "__main__":
    main()
