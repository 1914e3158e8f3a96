"""The error of a network's description."""


class TopologyError(ValueError):
    """A topology file makes no sense. Its message is a sentence with the file, the line, the reason and a remedy."""
