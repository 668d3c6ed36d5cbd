"""A model wrapped in nn.DataParallel, as scripts for several GPUs do."""

import edutorch as torch
from edutorch import nn, optim
from tests.programs import unwatched


class Model(nn.Module):
    def __init__(self, input_size=5, output_size=2):
        super().__init__()
        self.fc1 = nn.Linear(input_size, 6)
        self.fc2 = nn.Linear(6, output_size)

    def forward(self, input):
        return self.fc2(torch.relu(self.fc1(input)))


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    model = nn.DataParallel(Model()).to(device)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.MSELoss()
    data, target = torch.randn(6, 5).to(device), torch.randn(6, 2).to(device)
    with watch(model):
        for _ in range(steps):
            optimizer.zero_grad()
            output = model(data)
            loss = criterion(output, target)
            loss.backward()
            optimizer.step()
