"""A word language model with tied weights: Press and Wolf 2016, https://arxiv.org/abs/1608.05859."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class RNNModel(nn.Module):
    def __init__(self, ntoken=10, ninp=4, nlayers=2):
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.RNN(ninp, ninp, nlayers, nonlinearity="tanh", dropout=0.2)
        self.decoder = nn.Linear(ninp, ntoken)
        self.decoder.weight = self.encoder.weight
        self.ntoken = ntoken
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, input, hidden):
        emb = self.drop(self.encoder(input))
        output, hidden = self.rnn(emb, hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.ntoken)
        return F.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return weight.new_zeros(2, bsz, 4)


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = RNNModel()
    criterion = nn.NLLLoss()
    optimizer = optim.SGD(model.parameters(), lr=0.5)
    data, targets = torch.randint(0, 10, (5, 3)), torch.randint(0, 10, (15,))
    hidden = model.init_hidden(3)
    with watch(model):
        for _ in range(steps):
            model.zero_grad()
            hidden = hidden.detach()
            output, hidden = model(data, hidden)
            loss = criterion(output, targets)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            optimizer.step()
