"""`torch.distributed.algorithms`: uneven inputs, and other ways to average gradients."""
