"""FaceNet's triplet loss, on a small embedding net: https://arxiv.org/abs/1503.03832."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class EmbeddingNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 2, 3), nn.Conv2d(2, 3, 3)
        self.prelu = nn.PReLU()
        self.fc = nn.Linear(3, 4)

    def forward(self, x):
        x = F.max_pool2d(self.prelu(self.conv1(x)), 2)
        x = self.prelu(self.conv2(x))
        x = self.fc(x.flatten(1))
        return F.normalize(x, p=2, dim=1)


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = EmbeddingNet()
    triplet_loss = nn.TripletMarginLoss(margin=1.0, p=2)
    optimizer = optim.SGD(model.parameters(), lr=0.05)
    anchor, positive, negative = torch.rand(3, 4, 1, 8, 8)
    with watch(model):
        for _ in range(steps):
            optimizer.zero_grad()
            loss = triplet_loss(model(anchor), model(positive), model(negative))
            loss.backward()
            optimizer.step()
