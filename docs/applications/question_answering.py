"""Question answering: the words of a text that answer a question.

The stories are made up: four persons put things into rooms. A question asks who put a thing, or
where it is; the answer is a span of the story, its first and its last word: those whose states fit
the question's state best. The stories of the test were not trained on.

Papers: Chen et al., Reading Wikipedia to answer open-domain questions, 2017,
    https://arxiv.org/abs/1704.00051 (the network); Weston et al., Towards AI-complete question
    answering, 2015, https://arxiv.org/abs/1502.05698 (the stories).

    python -m edutorch run docs/applications/question_answering.py
"""

import random

import torch
import torch.nn.functional as F
from torch import nn

NAMES = "anna ben clara david emma felix greta henry ida jonas karla leo".split()
THINGS = "key ring book lamp ball cup coin map pen hat".split()
ROOMS = "kitchen|living room|garden|cellar|dining room|attic|bath|dark hall".split("|")
LENGTH = 36  # of the longest story, in words

WORDS = " ".join([*NAMES, *THINGS, *ROOMS, "where is the who put ? in ."]).split()
NUMBER = {word: number for number, word in enumerate(dict.fromkeys(WORDS), start=1)}


def tell_story(source: random.Random) -> tuple[list[str], list[str], int, int]:
    """Return the words of a question and a story, and where in it the answer begins and ends."""
    things = source.sample(THINGS, 4)
    asked = source.choice(things)
    asks_who = source.random() < 0.5
    question = f"who put the {asked} ?" if asks_who else f"where is the {asked} ?"
    words: list[str] = []
    start = end = 0
    for thing in things:
        sentence = f"{source.choice(NAMES)} put the {thing} in the {source.choice(ROOMS)} ."
        begin = len(words)
        words += sentence.split()
        if thing == asked:
            # The name is the first word; the room is between "in the" and the full stop.
            start, end = (begin, begin) if asks_who else (begin + 6, len(words) - 2)
    return question.split(), words, start, end


def make_batch(source: random.Random, count: int) -> tuple[torch.Tensor, ...]:
    """Return questions (count, 5), stories (count, LENGTH), and spans (count, 2)."""
    questions, stories, starts, ends = zip(*[tell_story(source) for _ in range(count)], strict=True)
    return (
        torch.tensor([[NUMBER[word] for word in question] for question in questions]),
        torch.tensor(
            [[NUMBER[w] for w in story] + [0] * (LENGTH - len(story)) for story in stories]
        ),
        torch.tensor([starts, ends]).T,
    )


class Reader(nn.Module):
    """Scores of each word of a story to be the first, and the last, of the answer.

    Shape: questions (batch, 5), stories (batch, words) → (batch, words) twice.
    """

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(len(NUMBER) + 1, width, padding_idx=0)
        self.question = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.story = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.start = nn.Linear(2 * width, 2 * width, bias=False)
        self.end = nn.Linear(2 * width, 2 * width, bias=False)

    def forward(
        self, questions: torch.Tensor, stories: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        asked = self.question(self.words(questions))[1]  # the last states of both directions
        asked = torch.cat([asked[0], asked[1]], 1)[:, :, None]
        read = self.story(self.words(stories))[0]
        return (self.start(read) @ asked)[:, :, 0], (self.end(read) @ asked)[:, :, 0]


def answer(
    model: nn.Module, questions: torch.Tensor, stories: torch.Tensor, longest: int = 3
) -> torch.Tensor:
    """Return the span (batch, 2) with the highest sum of both scores, of at most 3 words."""
    start, end = model(questions, stories)
    is_span = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu().tril(longest - 1)
    spans = (start[:, :, None] + end[:, None, :]).masked_fill(~is_span, -torch.inf)
    best = spans.flatten(1).argmax(1)
    return torch.stack([best // LENGTH, best % LENGTH], 1)


def main() -> None:
    torch.manual_seed(0)
    source = random.Random(0)
    model, steps = Reader(), 250
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps)
    for _ in range(steps):
        questions, stories, spans = make_batch(source, 64)
        start, end = model(questions, stories)
        loss = F.cross_entropy(start, spans[:, 0]) + F.cross_entropy(end, spans[:, 1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        questions, stories, spans = make_batch(random.Random(1), 500)
        exact = (answer(model, questions, stories) == spans).all(1).float().mean().item()
    print(f"question answering: {exact:.1%} of 500 answers are exactly right")


if __name__ == "__main__":
    main()
