"""A GRU over packed sequences of several lengths: Cho et al. 2014, https://arxiv.org/abs/1406.1078."""

import edutorch as torch
from edutorch import nn, optim
from edutorch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from tests.programs import unwatched


class Tagger(nn.Module):
    def __init__(self, vocab, tags, embed=3, hidden=4):
        super().__init__()
        self.embedding = nn.Embedding(vocab, embed, padding_idx=0)
        self.gru = nn.GRU(embed, hidden, batch_first=True)
        self.out = nn.Linear(hidden, tags)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(
            self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False
        )
        output, _ = self.gru(packed)
        output, _ = pad_packed_sequence(output, batch_first=True)
        return self.out(output)


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    sentences = [torch.randint(1, 10, (n,)) for n in (5, 3, 6, 2)]
    lengths = torch.tensor([len(s) for s in sentences])
    tokens = pad_sequence(sentences, batch_first=True)
    tags = torch.where(tokens > 0, tokens % 3, torch.full_like(tokens, -100))
    model = Tagger(10, 3)
    criterion = nn.CrossEntropyLoss(ignore_index=-100)
    optimizer = optim.Adam(model.parameters())
    with watch(model):
        for _ in range(steps):
            optimizer.zero_grad()
            scores = model(tokens, lengths)
            loss = criterion(scores.transpose(1, 2), tags)
            loss.backward()
            optimizer.step()
