"""`torch.distributed.tensor`: tensors whose parts lie on several ranks."""
