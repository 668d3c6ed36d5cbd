"""`torch.fx.experimental`: questions that libraries ask."""
