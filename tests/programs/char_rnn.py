"""A character RNN, its state carried over and detached (truncated BPTT): Karpathy 2015."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class CharRNN(nn.Module):
    def __init__(self, n_chars, hidden=6):
        super().__init__()
        self.encoder = nn.Embedding(n_chars, hidden)
        self.rnn = nn.GRUCell(hidden, hidden)
        self.decoder = nn.Linear(hidden, n_chars)

    def forward(self, input, hidden):
        hidden = self.rnn(self.encoder(input), hidden)
        return self.decoder(hidden), hidden


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    text = "hello world, hello graph, hello gradient. " * 3
    chars = sorted(set(text))
    data = torch.tensor([chars.index(c) for c in text])
    chunk = 8
    model = CharRNN(len(chars))
    optimizer = optim.Adam(model.parameters(), lr=0.005)
    hidden = torch.zeros(1, 6)
    with watch(model):
        for step in range(steps):
            start = step * chunk
            hidden = hidden.detach()
            optimizer.zero_grad()
            loss = 0
            for c in range(start, start + chunk):
                output, hidden = model(data[c : c + 1], hidden)
                loss += F.cross_entropy(output, data[c + 1 : c + 2])
            loss.backward()
            optimizer.step()
