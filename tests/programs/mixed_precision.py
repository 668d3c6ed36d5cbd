"""Automatic mixed precision with a GradScaler: Micikevicius et al. 2017, https://arxiv.org/abs/1710.03740."""

import edutorch as torch
from edutorch import nn, optim
from tests.programs import unwatched


def main(steps=2, watch=unwatched):
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)
    )
    loss_fn = nn.MSELoss()
    opt = optim.SGD(net.parameters(), lr=0.001)
    scaler = torch.amp.GradScaler("cpu")
    data, target = torch.randn(6, 4), torch.randn(6, 2)
    with watch(net):
        for _ in range(steps):
            with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
                output = net(data)
                loss = loss_fn(output, target)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(net.parameters(), max_norm=0.1)
            scaler.step(opt)
            scaler.update()
            opt.zero_grad()
