"""Machines to try things on, made from what one machine has."""
