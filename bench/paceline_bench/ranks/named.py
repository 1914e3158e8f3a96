"""A rank whose backward pass submits the gradients of a real model by name, while input workers load its cores.

The computation is a fixed amount of CPU work, the same in every step and on every rank; the gradients have the model's
sizes. The method under test says what happens to them: a policy of coordination, or one of two references.
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
from paceline.process.current import runtime

from .input_worker import InputWorker
from .load import ComputeLoad
from .pattern import Array
from .wire import Message

ALONE, KNOWN = _REFERENCES = "alone", "known"
_FORWARD_SHARE = 1 / 3
"""The share of a step's work that the forward pass takes."""
_NEIGHBOURS = 3
"""The distance in the order up to which two gradients may be submitted in reverse, as by a scheduler's threads."""


class Method(Protocol):
    """A method of summing gradients: each is submitted once per step, in any order."""

    def submit(self, index: int) -> None:
        """Submit a gradient of this step."""

    def finish(self) -> None:
        """Wait until all gradients of this step are summed."""

    def figures(self) -> Message:
        """Return what the method measured since the last call."""

    def close(self) -> None:
        """Release what the method holds."""


class Alone:
    """A reference that exchanges nothing."""

    def submit(self, index: int) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Do nothing."""

    def figures(self) -> Message:
        """Return no figures."""
        return {}

    def close(self) -> None:
        """Do nothing."""


class Known:
    """A reference in which all ranks know the order: once the last gradient is ready, all go in full buffers."""

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

    def submit(self, index: int) -> None:
        """Do nothing until all gradients are ready."""

    def finish(self) -> None:
        """Reduce all gradients, buffer by buffer."""
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
        """Return no figures."""
        return {}

    def close(self) -> None:
        """Do nothing."""


class Negotiated:
    """One of the policies of `paceline.coordinate`."""

    def __init__(self, group: Group, gradients: Sequence[Array], names: Sequence[str], options: Options) -> None:
        self._coordinator = coordinator(group, options)
        self._names = names
        number = _engine.DTYPES["float32"]
        self._spans = [Span(gradient.ctypes.data, gradient.size, number) for gradient in gradients]
        self._in_flight: list[Any] = []
        self._before = self._coordinator.counters()
        if options.policy == "graph":
            self._coordinator.set_order(_buffers(names, gradients, options.graph_bytes))

    def submit(self, index: int) -> None:
        """Submit the gradient as a named request."""
        self._in_flight.append(self._coordinator.all_reduce(self._names[index], self._spans[index]))

    def finish(self) -> None:
        """Wait for all requests of this step."""
        for request in self._in_flight:
            request.wait()
        self._in_flight.clear()

    def figures(self) -> Message:
        """Return what coordination used since the last call, and when the last step's requests were ready and issued.

        Times are in ns; those of requests are CLOCK_MONOTONIC.
        """
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
        """Return when each of this rank's last `count` requests was submitted and issued, CLOCK_MONOTONIC in ns."""
        return [(record.submitted_ns, record.negotiated_ns) for record in self._coordinator.records()[-count:]]

    def close(self) -> None:
        """Close the coordinator."""
        self._coordinator.close()


def _buffers(names: Sequence[str], gradients: Sequence[Array], fusion_bytes: int) -> Sequence[Sequence[str]]:
    """Return the fusion buffers of gradients that do not depend on each other and come in reverse order."""
    backwards = zip(reversed(names), reversed(gradients), strict=True)
    graph = parallel(Collective(name, gradient.nbytes) for name, gradient in backwards)
    return scheme(graph, order(graph), fusion_bytes).buffers


class Training:
    """Steps of a training with a known amount of computation.

    Coordination exists only while steps are made, because some policies poll and ranks that are not measured must be
    idle.
    """

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        self._group = group = paceline.init(timeout=timeout)
        self.rank, self.size = group.rank, group.size
        self.about = f"{options['method']} {options['model']}"
        self._options = options
        gradients = json.loads(options["gradients"])
        self._names = [name for name, _ in gradients]
        self._gradients = [np.zeros(elements, np.float32) for _, elements in gradients]
        self._units, self._input_units = int(options["units"]), int(options["input_units"])
        self._load = ComputeLoad()
        self._random = random.Random(self.rank)
        self._step_number = 0

    def do_train(self, warm_up: int, steps: int) -> Message:
        """Make `warm_up` untimed steps and `steps` timed ones; return wall and CPU seconds and the method's figures."""
        with ExitStack() as stack:
            worker = stack.enter_context(InputWorker(self._input_units))
            partition = runtime().partition
            if partition is not None and partition.parts.input:
                os.sched_setaffinity(worker.pid, partition.parts.input)
            method = self._method()
            stack.callback(method.close)
            wrong = sum(self._step(method, worker) for _ in range(warm_up))
            method.figures()
            self._group.barrier()
            cpu, begin = time.process_time(), time.perf_counter()
            exposed = 0.0
            for _ in range(steps):
                wrong += self._step(method, worker)
                exposed += self._exposed
            seconds = time.perf_counter() - begin
            figures = method.figures()
            worker.wait()
            return {
                "seconds": seconds,
                "cpu_seconds": time.process_time() - cpu,
                "exposed_seconds": exposed,
                "wrong": wrong,
                **figures,
            }

    def do_answer(self, count: int) -> Message:
        """Submit one small tensor after the other and wait for each; return when each was submitted and issued."""
        if self._options["method"] in _REFERENCES:
            return {}
        method = Negotiated(self._group, [np.zeros(1, np.float32)], ["one"], self._coordination())
        try:
            for _ in range(count):
                method.submit(0)
                method.finish()
            return {"answers": method.answers(count)}
        finally:
            method.close()

    def close(self) -> None:
        """Leave the group."""
        self._group.close()

    def _method(self) -> Method:
        name, fusion_bytes = self._options["method"], int(self._options["fusion_bytes"])
        if name == ALONE:
            return Alone()
        if name == KNOWN:
            return Known(self._group, self._gradients, fusion_bytes)
        return Negotiated(self._group, self._gradients, self._names, self._coordination())

    def _coordination(self) -> Options:
        name, fusion_bytes = self._options["method"], int(self._options["fusion_bytes"])
        return Options(policy=name, wait=self._options["wait"], fusion_bytes=fusion_bytes)

    def _step(self, method: Method, worker: InputWorker) -> int:
        """Make one step, and return the number of wrong elements at the ends and in the middle of the gradients."""
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
            method.submit(index)
        begin = time.perf_counter()
        method.finish()
        self._exposed = time.perf_counter() - begin
        if isinstance(method, Alone):
            return 0
        expected = float(self.size * (self._step_number % 8) + self.size * (self.size - 1) // 2)
        ends = (gradient[at] for gradient in self._gradients for at in (0, gradient.size // 2, -1))
        return sum(float(found) != expected for found in ends)

    def _order(self) -> list[int]:
        """Return the reverse order, except that some neighbours change places: others on each rank and in each step."""
        return sorted(range(len(self._gradients)), key=lambda i: -i + self._random.uniform(0, _NEIGHBOURS))
