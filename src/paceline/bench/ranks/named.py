"""A rank whose backward pass hands in the gradients of a real model by name, while input workers load its cores.

The computation is work for the CPU of a fixed amount, the same in every step and on every rank; the gradients have the
model's sizes. What happens to them is the way to be measured: a policy of coordination, or one of two references.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Protocol

import numpy as np

import paceline
from paceline import _engine
from paceline.coordinate import Options, Span, coordinator
from paceline.group.group import Group
from paceline.order import Collective, order, parallel, scheme
from paceline.runtime.process import runtime

from .input_worker import InputWorker
from .load import Load
from .pattern import Array
from .wire import Message

ALONE, KNOWN = _REFERENCES = "alone", "known"
_FORWARD_SHARE = 1 / 3
_NEIGHBOURS = 3
"""How far apart two gradients may be that a scheduler's threads hand in in the other order."""


class Way(Protocol):
    """What happens to gradients: each is given once per step, in any order; `finish` returns when all are summed."""

    def give(self, index: int) -> None: ...
    def finish(self) -> None: ...
    def figures(self) -> Message: ...
    def close(self) -> None: ...


class Alone:
    """Nothing is exchanged."""

    def give(self, index: int) -> None:
        pass

    def finish(self) -> None:
        pass

    def figures(self) -> Message:
        return {}

    def close(self) -> None:
        pass


class Known:
    """Everybody knows the order: when the last gradient is there, they go in full buffers, nothing is agreed on."""

    def __init__(self, group: Group, gradients: Sequence[Array], fusion_bytes: int) -> None:
        self._group = group
        self._buffers: list[list[Array]] = [[]]
        room = fusion_bytes
        for gradient in reversed(gradients):
            if gradient.nbytes > room and self._buffers[-1]:
                self._buffers.append([])
                room = fusion_bytes
            self._buffers[-1].append(gradient)
            room -= gradient.nbytes
        largest = max(sum(gradient.size for gradient in buffer) for buffer in self._buffers)
        self._memory = paceline.empty(largest, np.float32)

    def give(self, index: int) -> None:
        pass

    def finish(self) -> None:
        for buffer in self._buffers:
            end = 0
            for gradient in buffer:
                begin, end = end, end + gradient.size
                self._memory[begin:end] = gradient
            self._group.all_reduce(self._memory[:end])
            end = 0
            for gradient in buffer:
                begin, end = end, end + gradient.size
                gradient[:] = self._memory[begin:end]

    def figures(self) -> Message:
        return {}

    def close(self) -> None:
        pass


class Negotiated:
    """One of the policies of `paceline.coordinate`."""

    def __init__(self, group: Group, gradients: Sequence[Array], names: Sequence[str], options: Options) -> None:
        self._coordinator = coordinator(group, options)
        self._names = names
        number = _engine.DTYPES["float32"]
        self._spans = [Span(gradient.ctypes.data, gradient.size, number) for gradient in gradients]
        self._under_way: list[Any] = []
        self._before = self._coordinator.counters()
        if options.policy == "graph":
            self._coordinator.set_order(_buffers(names, gradients, options.fusion_bytes))

    def give(self, index: int) -> None:
        self._under_way.append(self._coordinator.all_reduce(self._names[index], self._spans[index]))

    def finish(self) -> None:
        for request in self._under_way:
            request.wait()
        self._under_way.clear()

    def figures(self) -> Message:
        """Since the last time: what the coordination used, and when requests of the last step were ready and issued."""
        before, now = self._before, self._coordinator.counters()
        self._before = now
        recent = self._coordinator.records()[-len(self._names) :]
        return {
            "background_cpu_ns": now.background_cpu_ns - before.background_cpu_ns,
            "oversleep_ns": now.oversleep_ns - before.oversleep_ns,
            "sleeps": now.sleeps - before.sleeps,
            "ready": {record.name: [record.submitted_ns, record.negotiated_ns] for record in recent},
        }

    def answers(self, count: int) -> list[tuple[int, int]]:
        """The last requests of this rank: when each was handed in here and when it was issued here."""
        return [(record.submitted_ns, record.negotiated_ns) for record in self._coordinator.records()[-count:]]

    def close(self) -> None:
        self._coordinator.close()


def _buffers(names: Sequence[str], gradients: Sequence[Array], fusion_bytes: int) -> Sequence[Sequence[str]]:
    """No gradient needs another one; they come backwards."""
    backwards = zip(reversed(names), reversed(gradients), strict=True)
    graph = parallel(Collective(name, gradient.nbytes) for name, gradient in backwards)
    return scheme(graph, order(graph), fusion_bytes).buffers


class Training:
    """Steps of a training whose computation is known. Coordination exists only while steps are made: some policies
    poll, and ranks that are not measured must be idle."""

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        self._group = group = paceline.init(timeout=timeout)
        self.rank, self.size = group.rank, group.size
        self.about = f"{options['way']} {options['model']}"
        self._options = options
        gradients = json.loads(options["gradients"])
        self._names = [name for name, _ in gradients]
        self._gradients = [np.zeros(elements, np.float32) for _, elements in gradients]
        self._units, self._input_units = int(options["units"]), int(options["input_units"])
        self._load = Load()
        self._random = random.Random(self.rank)
        self._step_number = 0

    def do_train(self, warm_up: int, steps: int) -> Message:
        """Some steps that aren't timed and `steps` that are: wall seconds and what the way has to tell of them."""
        with ExitStack() as stack:
            worker = stack.enter_context(InputWorker(self._input_units))
            partition = runtime().partition
            if partition is not None and partition.parts.input:
                os.sched_setaffinity(worker.pid, partition.parts.input)
            way = self._way()
            stack.callback(way.close)
            wrong = sum(self._step(way, worker) for _ in range(warm_up))
            way.figures()
            self._group.barrier()
            cpu, begin = time.process_time(), time.perf_counter()
            exposed = 0.0
            for _ in range(steps):
                wrong += self._step(way, worker)
                exposed += self._exposed
            seconds = time.perf_counter() - begin
            figures = way.figures()
            worker.wait()
            return {
                "seconds": seconds,
                "cpu_seconds": time.process_time() - cpu,
                "exposed_seconds": exposed,
                "wrong": wrong,
                **figures,
            }

    def do_answer(self, count: int) -> Message:
        """One small tensor after the other, each waited for, and nothing else: when it was handed in and issued."""
        if self._options["way"] in _REFERENCES:
            return {}
        way = Negotiated(self._group, [np.zeros(1, np.float32)], ["one"], self._wish())
        try:
            for _ in range(count):
                way.give(0)
                way.finish()
            return {"answers": way.answers(count)}
        finally:
            way.close()

    def close(self) -> None:
        """Leaves the group."""
        self._group.close()

    def _way(self) -> Way:
        name, fusion_bytes = self._options["way"], int(self._options["fusion_bytes"])
        if name == ALONE:
            return Alone()
        if name == KNOWN:
            return Known(self._group, self._gradients, fusion_bytes)
        return Negotiated(self._group, self._gradients, self._names, self._wish())

    def _wish(self) -> Options:
        name, fusion_bytes = self._options["way"], int(self._options["fusion_bytes"])
        return Options(policy=name, wait=self._options["wait"], fusion_bytes=fusion_bytes)

    def _step(self, way: Way, worker: InputWorker) -> int:
        """Elements that are wrong at the ends of the gradients."""
        worker.wait()
        worker.ask()
        self._step_number += 1
        forward = round(self._units * _FORWARD_SHARE)
        self._load.work(forward)
        value = float(self._step_number % 8 + self.rank)
        done, count = 0, len(self._gradients)
        for place, index in enumerate(self._order()):
            due = (self._units - forward) * (place + 1) // count
            self._load.work(due - done)
            done = due
            self._gradients[index].fill(value)
            way.give(index)
        begin = time.perf_counter()
        way.finish()
        self._exposed = time.perf_counter() - begin
        if isinstance(way, Alone):
            return 0
        expected = float(self.size * (self._step_number % 8) + self.size * (self.size - 1) // 2)
        ends = (gradient[at] for gradient in self._gradients for at in (0, gradient.size // 2, -1))
        return sum(float(found) != expected for found in ends)

    def _order(self) -> list[int]:
        """Backwards, but for neighbours that change places: on each rank, in each step, others."""
        return sorted(range(len(self._gradients)), key=lambda i: -i + self._random.uniform(0, _NEIGHBOURS))
