"""The cost of each call of a model, measured call by call on example inputs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor

from paceline.calibration.torch import KEPT_FREE, RETURNED
from paceline.torch.freed_memory import return_free_memory, returning
from paceline.torch.partitioned.crowds import Clock
from paceline.torch.partitioned.effects import effects
from paceline.torch.partitioned.graph import Graph
from paceline.torch.partitioned.module_state import preserved
from paceline.torch.partitioned.one_pass import Pass
from paceline.torch.partitioned.values import UNKNOWN, Value, value_of
from paceline.torch.partitioned.whole import whole

_ROUNDS = 2
"""The number of timings of each call; the fastest counts, because other processes only add to it."""

_COPIES = 5
"""The most copies of its weights that a rank holds, with an optimizer such as Adam; see `predicted.memory.copies`."""


class Seconds(NamedTuple):
    """The seconds that a call takes, forward and backward."""

    forward: float
    backward: float


@dataclass(frozen=True)
class Call:
    """One call for a microbatch of the example's size.

    kept, returned: its time where the allocator keeps what is freed, and where that goes back to the system at once;
    the latter is only measured where it may matter. saved: bytes that autograd keeps for its backward. mutates: the
    names of the arguments that it changes in place. random: whether it draws random numbers.
    """

    kept: Seconds
    returned: Seconds
    saved: int
    mutates: tuple[str, ...]
    random: bool


@dataclass(frozen=True)
class Profile:
    """The profile of a model. inputs, results: the model's arguments, and the result of each call.

    samples: the size of the microbatch that was measured. inseparable: the places between calls where there can't be a
    cut, whatever crosses it.
    """

    samples: int
    calls: tuple[Call, ...]
    inputs: tuple[Value, ...]
    results: tuple[Value, ...]
    inseparable: tuple[int, ...] = ()

    def dump(self) -> bytes:
        """As JSON."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def load(data: bytes) -> Profile:
        """Return the profile that `dump` wrote."""
        read = json.loads(data)
        calls = tuple(map(_call, read["calls"]))
        inputs, results = (tuple(map(_value, read[key])) for key in ("inputs", "results"))
        return Profile(read["samples"], calls, inputs, results, tuple(read["inseparable"]))


def profile(
    graph: Graph, example: Sequence[Tensor], samples: int, available: float, clock: Clock = time.perf_counter
) -> Profile:
    """Run the model's calls, forward and backward, on the first `samples` samples of `example`, and time them.

    available: bytes of memory, of which the profile takes about half where it could need more. Its first pass finds how
    much the calls need; nothing that it frees is kept, so that it needs little itself. Calls are then timed with an
    allocator that keeps what is freed, and where the activations of the whole example may not fit with one that returns
    it as well. A last pass has a sample more and shows which dimensions are those of the batch. What else calls do is
    seen in training and in evaluation, of which either may follow. Attributes, buffers and random numbers are
    afterwards what they were. Raises what the model raises.
    """
    batch = example[0].shape[0]
    few, more = ([tensor[torch.arange(count) % batch] for tensor in example] for count in (samples, samples + 1))
    weights = sum(tensor.nbytes for tensor in graph.root.parameters())
    room = (available - 2 * weights) / 2
    with preserved(graph.root), torch.enable_grad():
        with returning():
            first = Pass(graph, few, room)
        saved = [first.saved(index) for index in range(len(graph.calls))]
        kept = returned = _timed(graph, few, room, clock, [KEPT_FREE * nbytes for nbytes in saved])
        if KEPT_FREE * sum(saved) * batch / samples + _COPIES * weights >= available:
            with returning():
                returned = _timed(graph, few, room, clock, [RETURNED * nbytes for nbytes in saved])
        other = Pass(graph, more, room)
        with returning():
            seen = effects(graph, more, room)
    results = tuple(
        value_of(one, two, samples, flag) if alike else UNKNOWN
        for one, two, flag, alike in zip(first.seen, other.seen, seen.differentiable, seen.alike, strict=True)
    )
    calls = tuple(map(Call, kept, returned, saved, seen.mutates, seen.random))
    inputs = tuple(value_of(one, two, samples, False) for one, two in zip(few, more, strict=True))
    return Profile(samples, calls, inputs, results, seen.inseparable)


def _timed(graph: Graph, inputs: Sequence[Tensor], room: float, clock: Clock, needed: Sequence[float]) -> list[Seconds]:
    """Time each call, in this room.

    The calls from the first one on whose activations fit then run together, and all seconds are scaled so that those of
    these calls add up. needed: bytes of each call's.
    """
    passes = [Pass(graph, inputs, room, clock) for _ in range(_ROUNDS)]
    forward = [min(some) for some in zip(*(each.forward for each in passes), strict=True)]
    backward = [min(some) for some in zip(*(each.backward for each in passes), strict=True)]
    if together := sum(before < room for before in accumulate(needed)):
        ahead, back = whole(graph, inputs, together, clock)
        forward, backward = _scaled(forward, ahead, together), _scaled(backward, back, together)
        return_free_memory()
    return list(map(Seconds, forward, backward))


def _scaled(seconds: Sequence[float], whole: float, together: int) -> list[float]:
    """The same shares, with which the first ones add up to the whole."""
    found = sum(seconds[:together])
    return [each * whole / found for each in seconds] if found else list(seconds)


def _call(read: dict[str, Any]) -> Call:
    times = {key: Seconds(*read[key]) for key in ("kept", "returned")}
    return Call(**{**read, **times, "mutates": tuple(read["mutates"])})


def _value(read: dict[str, Any]) -> Value:
    return Value(**{**read, **{key: tuple(read[key]) for key in ("per_sample", "constant", "order")}})
