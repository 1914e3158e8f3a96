"""Schedules that say which machines measure with each other, and when."""

from __future__ import annotations

import random
from collections.abc import Iterable

Round = list[tuple[int, int]]
"""Pairs that measure at the same time. Every machine is in at most one of them, so no machine's link is in two."""


def packed(pairs: Iterable[tuple[int, int]], most: int) -> list[Round]:
    """Return the pairs in at most `most` rounds, each in the first that has room for it; the rest are left out."""
    found: list[Round] = []
    for pair in sorted({(min(pair), max(pair)) for pair in pairs}):
        free = next((one for one in found if not any(set(pair) & set(other) for other in one)), None)
        if free is not None:
            free.append(pair)
        elif len(found) < most:
            found.append([pair])
    return found


def rounds(machines: int, most: int) -> list[Round]:
    """Return rounds in which every two machines meet once, or `most` of them, spread evenly, if there are more.

    This is a round-robin tournament by the circle method: the first stays, the others move on by one place.
    """
    places = machines + machines % 2  # with an odd number, the machine that would meet the last place rests
    every: list[Round] = []
    for turn in range(places - 1):
        circle = [0, *((turn + place) % (places - 1) + 1 for place in range(places - 1))]
        pairs = ((circle[place], circle[-1 - place]) for place in range(places // 2))
        every.append([(min(pair), max(pair)) for pair in pairs if max(pair) < machines])
    if len(every) <= most:
        return every
    return [every[number * len(every) // most] for number in range(most)]


def crowds(machines: int, least: int) -> list[list[int]]:
    """Return rounds in which all machines send at once; each round lists, by sender, the machine to which it sends.

    Every machine sends to every other one once, then again in another combination, until there are `least` rounds.
    Machines that share a switch are usually numbered consecutively, so the numbers are shuffled first, with a fixed
    seed.
    """
    chance = random.Random(machines)
    found: list[list[int]] = []
    while len(found) < least and machines > 1:
        circle = list(range(machines))
        chance.shuffle(circle)
        place = {machine: number for number, machine in enumerate(circle)}
        for step in range(1, machines):
            found.append([circle[(place[machine] + step) % machines] for machine in range(machines)])
    return found
