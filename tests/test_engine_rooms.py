"""The engine's rooms, which are the folders of `engine/`, include each other's headers in one direction only."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

ENGINE = Path(__file__).parents[1] / "engine"
INCLUDE = re.compile(r'^#include "(\w+)/', re.MULTILINE)


def test_no_circle_among_the_rooms() -> None:
    files: dict[tuple[str, str], list[str]] = {}
    """The files of one room that include a header of another."""
    for path in sorted(ENGINE.glob("*/**/*.[ch]pp")):
        room = path.relative_to(ENGINE).parts[0]
        for other in {*INCLUDE.findall(path.read_text())} - {room}:
            files.setdefault((room, other), []).append(str(path.relative_to(ENGINE)))
    below: dict[str, set[str]] = {}
    for room, other in files:
        below.setdefault(room, set()).add(other)
    try:
        TopologicalSorter(below).prepare()
    except CycleError as error:
        # Each room in the circle is included by the next one.
        circle = [f"{'  '.join(files[room, other])}: includes {other}/" for other, room in pairwise(error.args[1])]
        pytest.fail("the rooms form a circle:\n" + "\n".join(circle))
