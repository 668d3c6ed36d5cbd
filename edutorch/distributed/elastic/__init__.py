"""`torch.distributed.elastic`: what programs use of it beside the launcher."""
