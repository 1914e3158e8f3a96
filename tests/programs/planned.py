"""Groups that go by a plan of the test's choice, cut into chunks of the test's choice."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from paceline.group.group import Group
from paceline.plan.binomial import binomial
from paceline.plan.ir import Plan
from paceline.plan.ring import ring
from paceline.plan.wire import to_wire
from paceline.process.current import runtime


def planned(group: Any, plan: Plan, chunk: int, timeout: float = 60.0) -> Group:
    """The same ranks; all-reduce goes by `plan`, broadcast by a binomial tree and reduce-scatter by a ring, in
    chunks of `chunk` bytes."""
    channel = np.array([secrets.randbits(62)])
    group.broadcast(channel, 0)
    broadcast = [(-1, "binomial", False, chunk, 4, to_wire(binomial(group.size)))]
    entries = {
        "all_reduce": [(-1, plan.name, False, chunk, 4, to_wire(plan))],
        "all_gather": [(-1, "ring", False, chunk, 4, to_wire(ring(group.size)))],
        "broadcast": broadcast,
        "turned_broadcast": broadcast,
    }
    process, ranks = runtime(), list(range(group.size))
    native = process.subgroup(group._native.channel, ranks, int(channel[0]), timeout, lambda *_: entries)
    return Group(process, native, timeout)
