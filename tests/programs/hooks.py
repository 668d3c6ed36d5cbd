"""Grad-CAM's forward and backward hooks on a small CNN: https://arxiv.org/abs/1610.02391."""

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn, optim
from tests.programs import unwatched


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 4),
    )  # fmt: skip
    activations, gradients = {}, {}

    def save_activation(module, args, output):
        activations["value"] = output.detach()
        output.register_hook(save_gradient)

    def save_gradient(grad):
        gradients["value"] = grad.detach()

    model[3].register_forward_hook(save_activation)
    model[6].weight.register_hook(lambda grad: grad.clamp(-1, 1))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.rand(4, 1, 8, 8), torch.randint(0, 4, (4,))
    with watch(model):
        for _ in range(steps):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        weights = gradients["value"].mean(dim=(2, 3), keepdim=True)
        cam = F.relu((weights * activations["value"]).sum(dim=1))
        cam /= cam.max() + 1e-8
