"""The first command a newcomer runs: a real training on a few ranks, over Paceline and over Gloo."""
