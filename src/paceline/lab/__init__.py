"""A cluster on one Linux machine: network namespaces for machines, with links held to their rates."""
