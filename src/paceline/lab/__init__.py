"""A cluster on one Linux machine: network namespaces stand for machines, and their links are limited to given rates."""
