"""Two LSTMCells called once per time, learning sine waves: Graves 2013, https://arxiv.org/abs/1308.0850."""

import math

import edutorch as torch
from edutorch import nn, optim
from tests.programs import unwatched


class Sequence(nn.Module):
    def __init__(self, hidden=4):
        super().__init__()
        self.hidden = hidden
        self.lstm1 = nn.LSTMCell(1, hidden)
        self.lstm2 = nn.LSTMCell(hidden, hidden)
        self.linear = nn.Linear(hidden, 1)

    def forward(self, input, future=0):
        outputs = []
        h_t = torch.zeros(input.size(0), self.hidden)
        c_t = torch.zeros(input.size(0), self.hidden)
        h_t2 = torch.zeros(input.size(0), self.hidden)
        c_t2 = torch.zeros(input.size(0), self.hidden)
        for input_t in input.split(1, dim=1):
            h_t, c_t = self.lstm1(input_t, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        for _ in range(future):
            h_t, c_t = self.lstm1(output, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        return torch.cat(outputs, dim=1)


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    t = torch.arange(21).float().unsqueeze(0) + torch.tensor([[0.0], [3.0], [5.0]])
    waves = torch.sin(2 * math.pi * t / 10)
    seq = Sequence()
    criterion = nn.MSELoss()
    optimizer = optim.Adam(seq.parameters(), lr=0.02)
    with watch(seq):
        for _ in range(steps):
            optimizer.zero_grad()
            out = seq(waves[:, :-1])
            loss = criterion(out, waves[:, 1:])
            loss.backward()
            optimizer.step()
