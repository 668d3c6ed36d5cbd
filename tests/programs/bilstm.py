"""A bidirectional LSTM that reads a text: Graves and Schmidhuber 2005."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class BiLSTM(nn.Module):
    def __init__(self, vocab_size=12, embedding_dim=3, hidden_dim=4, n_layers=2):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.rnn = nn.LSTM(
            embedding_dim, hidden_dim, num_layers=n_layers, bidirectional=True, dropout=0.3
        )
        self.fc = nn.Linear(hidden_dim * 2, 1)
        self.dropout = nn.Dropout(0.3)

    def forward(self, text):
        embedded = self.dropout(self.embedding(text))
        _, (hidden, _) = self.rnn(embedded)
        hidden = self.dropout(torch.cat((hidden[-2], hidden[-1]), dim=1))
        return self.fc(hidden).squeeze(1)


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = BiLSTM()
    optimizer = optim.Adam(model.parameters())
    text, label = torch.randint(0, 12, (6, 4)), torch.tensor([0.0, 1.0, 1.0, 0.0])
    with watch(model):
        for _ in range(steps):
            optimizer.zero_grad()
            loss = F.binary_cross_entropy_with_logits(model(text), label)
            loss.backward()
            optimizer.step()
