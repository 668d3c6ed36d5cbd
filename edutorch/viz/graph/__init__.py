"""A recorded graph as plain data: read, grouped, folded, searched."""
