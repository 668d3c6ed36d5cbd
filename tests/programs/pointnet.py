"""PointNet with an input transform: Qi et al. 2016, https://arxiv.org/abs/1612.00593."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class STN3d(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(3, 4, 1), nn.Conv1d(4, 6, 1)
        self.fc1, self.fc2 = nn.Linear(6, 4), nn.Linear(4, 9)
        self.bn1, self.bn2, self.bn3 = nn.BatchNorm1d(4), nn.BatchNorm1d(6), nn.BatchNorm1d(4)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = torch.max(x, 2, keepdim=True)[0].view(-1, 6)
        x = self.fc2(F.relu(self.bn3(self.fc1(x))))
        iden = torch.eye(3).flatten().repeat(x.size(0), 1)
        return (x + iden).view(-1, 3, 3)


class PointNetCls(nn.Module):
    def __init__(self, k=3):
        super().__init__()
        self.stn = STN3d()
        self.conv1, self.conv2 = nn.Conv1d(3, 4, 1), nn.Conv1d(4, 8, 1)
        self.bn1, self.bn2 = nn.BatchNorm1d(4), nn.BatchNorm1d(8)
        self.fc1, self.fc2 = nn.Linear(8, 6), nn.Linear(6, k)
        self.dropout = nn.Dropout(p=0.3)

    def forward(self, x):
        trans = self.stn(x)
        x = torch.bmm(x.transpose(2, 1), trans).transpose(2, 1)
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.bn2(self.conv2(x))
        x = torch.max(x, 2, keepdim=True)[0].view(-1, 8)
        x = self.fc2(F.relu(self.dropout(self.fc1(x))))
        return F.log_softmax(x, dim=1), trans


def feature_transform_regularizer(trans):
    identity = torch.eye(trans.size(1))[None, :, :]
    return torch.mean(torch.norm(torch.bmm(trans, trans.transpose(2, 1)) - identity, dim=(1, 2)))


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    classifier = PointNetCls()
    optimizer = optim.Adam(classifier.parameters(), lr=0.001, betas=(0.9, 0.999))
    points, target = torch.rand(4, 10, 3), torch.randint(0, 3, (4,))
    points = points.transpose(2, 1)
    with watch(classifier):
        for _ in range(steps):
            optimizer.zero_grad()
            pred, trans = classifier(points)
            loss = F.nll_loss(pred, target)
            loss += feature_transform_regularizer(trans) * 0.001
            loss.backward()
            optimizer.step()
