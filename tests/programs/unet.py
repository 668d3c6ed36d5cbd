"""U-Net: Ronneberger et al. 2015, https://arxiv.org/abs/1505.04597."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


class DoubleConv(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.double_conv(x)


class Up(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.up = nn.ConvTranspose2d(in_channels, in_channels // 2, 2, stride=2)
        self.conv = DoubleConv(in_channels, out_channels)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        dy, dx = x2.size(2) - x1.size(2), x2.size(3) - x1.size(3)
        x1 = F.pad(x1, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


class UNet(nn.Module):
    def __init__(self, n_channels=3, n_classes=1, width=2):
        super().__init__()
        self.inc = DoubleConv(n_channels, width)
        self.pool = nn.MaxPool2d(2)
        self.down1 = DoubleConv(width, width * 2)
        self.down2 = DoubleConv(width * 2, width * 4)
        self.down3 = DoubleConv(width * 4, width * 8)
        self.down4 = DoubleConv(width * 8, width * 16)
        self.up1 = Up(width * 16, width * 8)
        self.up2 = Up(width * 8, width * 4)
        self.up3 = Up(width * 4, width * 2)
        self.up4 = Up(width * 2, width)
        self.outc = nn.Conv2d(width, n_classes, 1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(self.pool(x1))
        x3 = self.down2(self.pool(x2))
        x4 = self.down3(self.pool(x3))
        x5 = self.down4(self.pool(x4))
        x = self.up1(x5, x4)
        x = self.up2(x, x3)
        x = self.up3(x, x2)
        x = self.up4(x, x1)
        return self.outc(x)


def dice_loss(logits, target, smooth=1.0):
    probability = torch.sigmoid(logits).flatten()
    target = target.flatten()
    overlap = (probability * target).sum()
    return 1 - (2 * overlap + smooth) / (probability.sum() + target.sum() + smooth)


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = UNet()
    optimizer = optim.RMSprop(model.parameters(), lr=1e-4, momentum=0.9)
    criterion = nn.BCEWithLogitsLoss()
    images = torch.rand(2, 3, 32, 32)
    masks = (torch.rand(2, 1, 32, 32) > 0.5).float()
    with watch(model):
        for _ in range(steps):
            pred = model(images)
            loss = criterion(pred, masks)
            loss += dice_loss(pred, masks)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
