"""A group of ranks and its collectives on anything that has a buffer."""
