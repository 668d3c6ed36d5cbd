"""From a graph as data to a picture: DOT, layout, SVG, PNG."""
