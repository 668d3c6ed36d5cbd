"""A small ResNet on pictures of blobs in one of three colours, as a training script does it."""

import argparse
import copy
from collections import OrderedDict
from functools import partial
from typing import Callable, List, Optional, Type

import torch
import torch.backends.cudnn as cudnn
import torch.nn as nn
import torch.optim as optim
from torch import Tensor
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, Dataset, random_split
from repeatable import Dice, same_start, write_losses

cudnn.benchmark = True


def conv3x3(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(in_planes, out_planes, 3, stride=stride, padding=1, bias=False)


class BasicBlock(nn.Module):
    expansion: int = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: Optional[nn.Module] = None,
        norm_layer: Optional[Callable[..., nn.Module]] = None,
    ) -> None:
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2d
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = norm_layer(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = norm_layer(planes)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, block: Type[BasicBlock], layers: List[int], num_classes: int = 3) -> None:
        super().__init__()
        self._norm_layer = partial(nn.BatchNorm2d, eps=1e-5, momentum=0.1)
        self.inplanes = 8
        self.conv1 = nn.Conv2d(3, 8, kernel_size=3, stride=1, padding=1, bias=False)
        self.bn1 = self._norm_layer(8)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, 8, layers[0])
        self.layer2 = self._make_layer(block, 16, layers[1], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(16 * block.expansion, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)

    def _make_layer(self, block, planes, blocks, stride=1) -> nn.Sequential:
        downsample = None
        if stride != 1 or self.inplanes != planes * block.expansion:
            downsample = nn.Sequential(
                nn.Conv2d(self.inplanes, planes, kernel_size=1, stride=stride, bias=False),
                self._norm_layer(planes),
            )
        layers = [block(self.inplanes, planes, stride, downsample, self._norm_layer)]
        self.inplanes = planes * block.expansion
        layers += [block(planes, planes, norm_layer=self._norm_layer) for _ in range(1, blocks)]
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer2(self.layer1(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Colours(Dataset):
    def __init__(self, count, transform=None):
        dice = Dice(0)
        self.targets = dice.randint(0, 3, (count,))
        self.images = 0.5 * dice.rand(count, 3, 12, 12)
        self.images[torch.arange(count), self.targets] += 0.15
        self.transform = transform

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, i):
        image = self.images[i] if self.transform is None else self.transform(self.images[i])
        return image, int(self.targets[i])


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--out", default="")
args = parser.parse_args()
dataset = Colours(96, transform=lambda image: (image - 0.5) / 0.25)
train_set = torch.utils.data.Subset(dataset, range(80))
val_set = torch.utils.data.Subset(dataset, range(80, 96))
dataloaders = {"train": DataLoader(train_set, batch_size=8), "val": DataLoader(val_set, 8)}
model = same_start(ResNet(BasicBlock, [1, 1]), seed=1)
frozen = [name for name, p in model.named_parameters() if name.startswith("conv1")]
model.conv1.weight.requires_grad_(False)
criterion = nn.CrossEntropyLoss()
trained = filter(lambda p: p.requires_grad, model.parameters())
optimizer = optim.SGD(trained, lr=0.02, momentum=0.9, weight_decay=1e-4, nesterov=True)
scheduler = lr_scheduler.MultiStepLR(optimizer, milestones=[1], gamma=0.5)
features = OrderedDict()
handle = model.avgpool.register_forward_hook(lambda m, i, o: features.update(pooled=o.detach()))
losses, accuracies, best_acc, best = [], [], -1.0, None
for epoch in range(args.epochs):
    for phase in ["train", "val"]:
        model.train(phase == "train")
        running_corrects = 0
        for inputs, labels in dataloaders[phase]:
            optimizer.zero_grad()
            with torch.set_grad_enabled(phase == "train"):
                outputs = model(inputs)
                _, preds = torch.max(outputs, 1)
                loss = criterion(outputs, labels)
                if phase == "train":
                    loss.backward()
                    optimizer.step()
                    losses.append(loss.item())
            running_corrects += torch.sum(preds == labels.data)
        if phase == "train":
            scheduler.step()
        epoch_acc = running_corrects.double() / len(dataloaders[phase].dataset)
        print(f"epoch {epoch} {phase} acc {epoch_acc:.4f} lr {scheduler.get_last_lr()}")
        if phase == "val":
            accuracies.append(epoch_acc.item())
            if epoch_acc > best_acc:
                best_acc, best = epoch_acc, copy.deepcopy(model.state_dict())
handle.remove()
model.load_state_dict(best)
assert frozen == ["conv1.weight"] and model.conv1.weight.grad is None
write_losses(args.out, loss=losses, accuracy=accuracies, pooled=features["pooled"].flatten())
