"""Paceline's version. Ranks with different ones refuse each other, so it is here even where nothing is installed."""

VERSION = "0.1.0"
