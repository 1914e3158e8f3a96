"""A small uneven cluster that several tests look at."""

from paceline.topology import parse

RACK = parse(
    """
children:
  - {machine: alpha, ranks: 2, uplink: 500 Mbit/s}
  - switch: rack
    uplink: 1 Gbit/s
    children:
      - {machine: beta, ranks: 3, uplink: 500 Mbit/s}
      - {machine: gamma, ranks: 1, uplink: 200 Mbit/s}
"""
)
