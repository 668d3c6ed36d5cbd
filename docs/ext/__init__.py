"""Two small Sphinx extensions: formulas without a network, links to the source."""
