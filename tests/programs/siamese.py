"""A siamese network, one body called twice: Hadsell et al. 2006, contrastive loss."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class SiameseNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.cnn1 = nn.Sequential(
            nn.Conv2d(1, 2, kernel_size=3, padding=1), nn.ReLU(inplace=True), nn.BatchNorm2d(2),
            nn.Conv2d(2, 3, kernel_size=3, padding=1), nn.ReLU(inplace=True), nn.BatchNorm2d(3),
        )  # fmt: skip
        self.fc1 = nn.Sequential(nn.Linear(3 * 6 * 6, 8), nn.ReLU(inplace=True), nn.Linear(8, 3))

    def forward_once(self, x):
        output = self.cnn1(x)
        output = output.view(output.size()[0], -1)
        return self.fc1(output)

    def forward(self, input1, input2):
        return self.forward_once(input1), self.forward_once(input2)


class ContrastiveLoss(nn.Module):
    def __init__(self, margin=2.0):
        super().__init__()
        self.margin = margin

    def forward(self, output1, output2, label):
        distance = F.pairwise_distance(output1, output2, keepdim=True)
        return torch.mean(
            (1 - label) * torch.pow(distance, 2)
            + label * torch.pow(torch.clamp(self.margin - distance, min=0.0), 2)
        )


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    net = SiameseNetwork()
    criterion = ContrastiveLoss()
    optimizer = optim.Adam(net.parameters(), lr=0.0005)
    img0, img1 = torch.rand(4, 1, 6, 6), torch.rand(4, 1, 6, 6)
    label = torch.tensor([[0.0], [1.0], [1.0], [0.0]])
    with watch(net):
        for _ in range(steps):
            optimizer.zero_grad()
            output1, output2 = net(img0, img1)
            loss_contrastive = criterion(output1, output2, label)
            loss_contrastive.backward()
            optimizer.step()
