"""Watching a training loop while it runs; the README draws the way from a step to the page."""
