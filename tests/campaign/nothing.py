"""A program that is over at once."""
