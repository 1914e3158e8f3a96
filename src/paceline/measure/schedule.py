"""Who measures with whom, and when."""

from __future__ import annotations

import random
from collections.abc import Iterable

Round = list[tuple[int, int]]
"""Pairs that meet at the same time: every machine is in one of them at most, so no machine's link is in two."""


def packed(pairs: Iterable[tuple[int, int]], most: int) -> list[Round]:
    """These pairs in as few rounds as come of taking each into the first that it fits; what needs more is left out."""
    found: list[Round] = []
    for pair in sorted({(min(pair), max(pair)) for pair in pairs}):
        free = next((one for one in found if not any(set(pair) & set(other) for other in one)), None)
        if free is not None:
            free.append(pair)
        elif len(found) < most:
            found.append([pair])
    return found


def rounds(machines: int, most: int) -> list[Round]:
    """Rounds in which every two machines meet once; where that would take more than `most`, as many, spread evenly.

    A tournament by the circle method: the first stays, the others move on by one place.
    """
    places = machines + machines % 2  # with an odd number, who meets the last one rests
    every: list[Round] = []
    for turn in range(places - 1):
        circle = [0, *((turn + place) % (places - 1) + 1 for place in range(places - 1))]
        pairs = ((circle[place], circle[-1 - place]) for place in range(places // 2))
        every.append([(min(pair), max(pair)) for pair in pairs if max(pair) < machines])
    if len(every) <= most:
        return every
    return [every[number * len(every) // most] for number in range(most)]


def crowds(machines: int, least: int) -> list[list[int]]:
    """Rounds in which all send at once, each to one other: by machine, whom it sends to.

    Every machine sends to every other one once, then once more in other company, until there are `least` rounds.
    Who shares a switch is usually numbered in a row, so the numbers are mixed first, by chance but always alike.
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
