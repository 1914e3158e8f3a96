"""The first thing a newcomer runs: a real training on a few ranks, with Paceline and with Gloo beside it."""
