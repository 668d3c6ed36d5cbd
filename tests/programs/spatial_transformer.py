"""A spatial transformer, grid_sample and affine_grid: Jaderberg et al. 2015, https://arxiv.org/abs/1506.02025."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 2, kernel_size=3), nn.Conv2d(2, 3, kernel_size=3)
        self.conv2_drop = nn.Dropout2d()
        self.fc1, self.fc2 = nn.Linear(12, 6), nn.Linear(6, 4)
        self.localization = nn.Sequential(
            nn.Conv2d(1, 2, kernel_size=3), nn.MaxPool2d(2, stride=2), nn.ReLU(True),
            nn.Conv2d(2, 2, kernel_size=3), nn.MaxPool2d(2, stride=2), nn.ReLU(True),
        )  # fmt: skip
        self.fc_loc = nn.Sequential(nn.Linear(2 * 2 * 2, 6), nn.ReLU(True), nn.Linear(6, 3 * 2))
        self.fc_loc[2].weight.data.zero_()
        self.fc_loc[2].bias.data.copy_(torch.tensor([1, 0, 0, 0, 1, 0], dtype=torch.float))

    def stn(self, x):
        xs = self.localization(x)
        theta = self.fc_loc(xs.view(-1, 8)).view(-1, 2, 3)
        grid = F.affine_grid(theta, x.size(), align_corners=False)
        return F.grid_sample(x, grid, align_corners=False)

    def forward(self, x):
        x = self.stn(x)
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2_drop(self.conv2(x)), 2))
        x = F.relu(self.fc1(x.view(-1, 12)))
        x = F.dropout(x, training=self.training)
        return F.log_softmax(self.fc2(x), dim=1)


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    data, target = torch.rand(3, 1, 14, 14), torch.randint(0, 4, (3,))
    with watch(model):
        for _ in range(steps):
            optimizer.zero_grad()
            loss = F.nll_loss(model(data), target)
            loss.backward()
            optimizer.step()
