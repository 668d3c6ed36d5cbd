"""The same start and the same draws on every machine, whatever a seed means there.

`torch.manual_seed` promises the same numbers only within one release of one library. These
scripts are compared between libraries, so their weights and their draws come from NumPy.
"""

import json

import numpy as np
import torch


class Dice:
    """Random tensors that a seed gives everywhere."""

    def __init__(self, seed):
        self.source = np.random.RandomState(seed)

    def randn(self, *shape):
        return self._float(self.source.standard_normal(shape))

    def rand(self, *shape):
        return self._float(self.source.uniform(size=shape))

    def randint(self, low, high, shape):
        return torch.from_numpy(self.source.randint(low, high, size=shape).astype(np.int64))

    def choose(self, probabilities):
        """Draw one index from a 1-d tensor of probabilities."""
        edges = np.cumsum(probabilities.detach().cpu().numpy().astype(np.float64))
        return int(min(np.searchsorted(edges, self.source.uniform() * edges[-1]), len(edges) - 1))

    def _float(self, array):
        return torch.from_numpy(np.asarray(array)).to(torch.get_default_dtype())


@torch.no_grad()
def same_start(model, seed):
    """Draw every parameter anew that its module has drawn; constant ones (norms) stay."""
    dice = np.random.RandomState(seed)
    for _name, p in model.named_parameters():
        if p.numel() > 1 and p.min() == p.max():
            continue
        fan_in = p[0].numel() if p.dim() > 1 else p.numel()
        bound = min(1.0, (3.0 / fan_in) ** 0.5) * 0.6
        p.copy_(torch.from_numpy(dice.uniform(-bound, bound, size=tuple(p.shape))))
    return model


def write_losses(path, **curves):
    """Write each curve, a list of numbers, under its name."""
    if path:
        with open(path, "w") as f:
            json.dump({name: [float(x) for x in values] for name, values in curves.items()}, f)
