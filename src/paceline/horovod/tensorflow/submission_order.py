"""Makes a function compute its gradients one after the other, and submit each before it goes on.

TensorFlow's executor puts an op that became ready on top of its thread's stack while the thread follows one path
through the graph. Thus a rank with one thread first computes the backward pass down to the first layer, then the
gradients of the weights, those of the last layer at the end, and starts collectives when nothing else is left: there is
nothing to hide them behind. Control dependencies keep such a thread from running ahead.

The order puts what only one gradient needs, and its submission, right after the last op of the others that it needs,
the least first; the rest stays in the program's order. It is an order in which the graph can be computed, so that an op
may wait for any submission before it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any

import tensorflow as tf

from paceline.cpu.budget import available

_START = "PacelineAllreduceStart"
_BACK = ("NextIteration", "RefNextIteration")
"""Ops that lead back to the beginning of a loop of TensorFlow 1."""
_SEVERAL = -1
"""Instead of a number of a submission: an op is needed for several."""


def operations() -> list[Any]:
    """Return the operations that the function which is being traced has so far, in their order; [] outside of one."""
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    return list(graph.get_operations()) if graph is not None and graph.building_function else []


def submit_in_order(before: int) -> None:
    """Let the ops that compute gradients wait until the gradients that come before them are submitted.

    before: the number of `operations` before any gradient was combined. As many gradients may be under way as
    TensorFlow has threads to run ops side by side. Does nothing where there are GPUs, which run ops in their order.
    """
    listed = operations()
    if len(listed) == before or tf.config.list_physical_devices("GPU"):
        return
    threads = tf.config.threading.get_inter_op_parallelism_threads() or len(available().affinity)
    for waiting, start in waits(listed, before, threads):
        waiting._add_control_inputs([start])


def waits(listed: Sequence[Any], before: int, threads: int) -> list[tuple[Any, Any]]:
    """Return pairs of an op and the op that submits a gradient, for which it has to wait.

    listed: all ops as they were made; those from `before` on combine gradients. threads: how many gradients may be
    under way. Where other gradients were combined before, ops wait for submissions that were made later.
    """
    order = _order(listed, before)
    if order is None:
        return []
    listed = [listed[number] for number in order]
    parents = _parents(listed, before)
    starts = [number for number in range(before, len(listed)) if listed[number].type == _START]
    only = _only(parents, starts)
    after = _after(parents, only, starts)
    work = Counter(only.values())
    handed = sorted(starts, key=lambda start: (after[start], work[start], start))
    turn = {start: number for number, start in enumerate(handed)}
    made = [after[start] for start in handed]

    def place(number: int) -> tuple[int, int, int]:
        start = only[number]
        return (number, -1, 0) if start == _SEVERAL else (after[start], turn[start], number)

    found = [(listed[later], listed[earlier]) for earlier, later in pairwise(handed)]
    latest: dict[int, int] = {}  # for an op, the turn of the last submission that it waits for
    for number in sorted(only, key=place):
        earlier = bisect_left(made, number) if only[number] == _SEVERAL else turn[only[number]]
        latest[number] = max((latest[parent] for parent in parents[number]), default=-1)
        if earlier - threads > latest[number] and _computes(listed[number]):
            latest[number] = earlier - threads
            found.append((listed[number], listed[handed[earlier - threads]]))
    return found


def _order(listed: Sequence[Any], before: int) -> list[int] | None:
    """Return the numbers of the ops, each after those that it needs, else as they were made; None if there is none.

    Those from `before` on stay the last, because no other op needs one of them yet.
    """
    parents = _parents(listed, before)
    children: list[list[int]] = [[] for _ in parents]
    for number, needed in enumerate(parents):
        for parent in needed:
            children[parent].append(number)
    missing = [len(needed) for needed in parents]
    ready = [number for number, count in enumerate(missing) if not count]
    found = []
    while ready:
        number = heappop(ready)
        found.append(number)
        for child in children[number]:
            missing[child] -= 1
            if not missing[child]:
                heappush(ready, child)
    return found if len(found) == len(listed) else None


def _parents(listed: Sequence[Any], before: int) -> list[list[int]]:
    """Return the numbers of the ops that each op needs. Of ops with a state, TensorFlow lets each wait for others that
    come before it; here it needs the last one. Hand-ins have no state that others see.
    """
    number_of = {op.name: number for number, op in enumerate(listed)}
    found, last = [], None
    for number, op in enumerate(listed):
        needed = (*(tensor.op for tensor in op.inputs), *op.control_inputs)
        numbers = [number_of[one.name] for one in needed if one.name in number_of and one.type not in _BACK]
        if number < before and _has_state(op):
            numbers += [] if last is None else [last]
            last = number
        found.append(numbers)
    return found


def _has_state(op: Any) -> bool:
    """Return whether TensorFlow keeps the op in order with others that come before or after it."""
    stateful = op._is_stateful or any(tensor.dtype == tf.resource for tensor in op.inputs)
    return stateful and not op.type.startswith("Paceline")


def _only(parents: Sequence[Sequence[int]], starts: Sequence[int]) -> dict[int, int]:
    """Return for each op that submissions need, and for these, which one needs it, or _SEVERAL."""
    found = {start: start for start in starts}
    for number in reversed(range(len(parents))):
        if number in found:
            for parent in parents[number]:
                found[parent] = found[number] if found.get(parent, found[number]) == found[number] else _SEVERAL
    return found


def _after(parents: Sequence[Sequence[int]], only: dict[int, int], starts: Sequence[int]) -> dict[int, int]:
    """Return for each submission the last op that it needs and that others need too; -1 if there is none."""
    found = dict.fromkeys(starts, -1)
    for number, start in only.items():
        if start != _SEVERAL:
            shared = (parent for parent in parents[number] if only[parent] == _SEVERAL)
            found[start] = max(found[start], *shared, -1)
    return found


def _computes(op: Any) -> bool:
    """Return whether an op computes numbers from others, and is not inside of a loop of TensorFlow 1."""
    numbers = any(output.dtype.is_floating or output.dtype.is_complex for output in op.outputs)
    return numbers and len(op.inputs) > 0 and op._get_control_flow_context() is None
