"""An LSTM of two layers that classifies sequences: https://doi.org/10.1162/neco.1997.9.8.1735."""

import edutorch as torch
from edutorch import nn, optim
from tests.programs import unwatched


class RNN(nn.Module):
    def __init__(self, input_size, hidden_size, num_layers, num_classes):
        super().__init__()
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.lstm = nn.LSTM(input_size, hidden_size, num_layers, batch_first=True)
        self.fc = nn.Linear(hidden_size, num_classes)

    def forward(self, x):
        h0 = torch.zeros(self.num_layers, x.size(0), self.hidden_size)
        c0 = torch.zeros(self.num_layers, x.size(0), self.hidden_size)
        out, _ = self.lstm(x, (h0, c0))
        return self.fc(out[:, -1, :])


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = RNN(4, 5, 2, 3)
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    images, labels = torch.randn(6, 7, 4), torch.randint(0, 3, (6,))
    with watch(model):
        for _ in range(steps):
            outputs = model(images)
            loss = criterion(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
