"""A rank whose computation is a sleep of known length, after which it submits gradients by name.

So a step takes what the network, the policy and the ranks' delays make of it, and not what else the CPUs have to do.
"""

from __future__ import annotations

import json
import random
import time

import numpy as np

import paceline
from paceline import _engine
from paceline.coordinate import Options, Span, coordinator

from .wire import Message

FORWARD = 1 / 3
"""The share of a step's computation before the first gradient."""


class Paced:
    """Steps of a training in which computing is sleeping."""

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        self._group = group = paceline.init(timeout=timeout)
        self.rank, self.size = group.rank, group.size
        self.about = f"paced {options['policy']}"
        sizes: list[int] = json.loads(options["elements"])
        self._gradients = [np.zeros(elements, np.float32) for elements in sizes]
        self._names = [f"gradient {place}" for place in range(len(sizes))]
        self._seconds, self._late = float(options["seconds"]), float(options["late"])
        self._options = Options(policy=options["policy"], fusion_bytes=int(options["fusion_bytes"]))
        self._order: list[list[str]] = json.loads(options["order"])
        self._random = random.Random(self.rank)

    def do_train(self, steps: int) -> Message:
        """Make steps; return when each was over (CLOCK_MONOTONIC in seconds) and the number of wrong sums."""
        agreed = coordinator(self._group, self._options)
        if self._options.policy == "graph":
            agreed.set_order(self._order)
        kind = _engine.DTYPES["float32"]
        spans = [Span(gradient.ctypes.data, gradient.size, kind) for gradient in self._gradients]
        ends, wrong = [], 0
        for step in range(steps):
            begin, value = time.monotonic(), float(step % 8 + self.rank)
            seconds = self._seconds + (self._random.expovariate(1 / self._late) if self._late else 0.0)
            requests = []
            for place, gradient in enumerate(self._gradients):
                gradient.fill(value)
                ready = FORWARD + (1 - FORWARD) * (place + 1) / len(self._gradients)
                time.sleep(max(0.0, begin + ready * seconds - time.monotonic()))
                requests.append(agreed.all_reduce(self._names[place], spans[place]))
            for request in requests:
                request.wait()
            ends.append(time.monotonic())
            expected = float(self.size * (step % 8) + self.size * (self.size - 1) // 2)
            wrong += sum(float(gradient[at]) != expected for gradient in self._gradients for at in (0, -1))
        agreed.close()
        return {"ends": ends, "wrong": wrong}

    def close(self) -> None:
        """Leave the group."""
        self._group.close()
