"""What is wrong with a description of a network."""


class TopologyError(ValueError):
    """A topology file makes no sense; the one sentence names the file, the line, the reason and what would be right."""
