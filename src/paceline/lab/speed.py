"""Measures what the links of a lab really carry, with iperf3 between its machines."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from paceline.lab.lab import Lab
from paceline.lab.namespaces import Unavailable, program
from paceline.launch.job import wrapped

_SECONDS = 2
"""Seconds that a stream runs."""
_PORT = 5201
_DEADLINE_SECONDS = 30.0
"""Seconds that iperf3 may take to start listening, or to end."""


@dataclass(frozen=True)
class Flow:
    """A stream from one machine to another. Rates are in bytes/s.

    rate: the rate of the slowest link on the way. carried: the payload that arrived.
    """

    source: str
    target: str
    rate: float
    carried: float

    @property
    def efficiency(self) -> float:
        """The share of the rate that arrives as payload: 0.956 on Ethernet if nothing else slows it."""
        return self.carried / self.rate


def flows(lab: Lab) -> list[Flow]:
    """Measure a stream from each machine to the next, in the topology's order, if a link limits it.

    No machine sends and receives at the same time, because acknowledgements would wait behind data. It takes two or
    three times 2 s. Raises Unavailable if iperf3 is missing or fails.
    """
    count = len(lab.machines)
    ring = [(number, (number + 1) % count) for number in range(count)]
    apart = [ring[: count - 1 : 2], ring[1 : count - 1 : 2], ring[count - 1 :]]
    return [flow for pairs in apart for flow in together(lab, [pair for pair in pairs if pair[0] != pair[1]])]


def together(lab: Lab, pairs: Sequence[tuple[int, int]]) -> list[Flow]:
    """Measure a stream from the first to the second machine of each pair, all at once; otherwise as `flows` does."""
    if program("iperf3") is None:
        raise Unavailable("the links' true speed needs the command `iperf3`; install the package iperf3.")
    limited = [(a, b, rate) for a, b in pairs if math.isfinite(rate := lab.rate(a, b))]
    with ExitStack() as stack:
        for _, target, _ in limited:
            stack.enter_context(_ended(_start(lab, target, "-s", "-1", "-B", lab.machines[target].address)))
        for _, target, _ in limited:
            _wait_for_listener(lab, target)
        clients = [stack.enter_context(_ended(_client(lab, source, target))) for source, target, _ in limited]
        return [
            Flow(lab.machines[source].name, lab.machines[target].name, rate, _result(client))
            for client, (source, target, rate) in zip(clients, limited, strict=True)
        ]


def _start(lab: Lab, machine: int, *options: str) -> subprocess.Popen[str]:
    words = [*lab.exec(machine), program("iperf3") or "iperf3", "-p", str(_PORT), *options]
    command = wrapped(words, death_signal=signal.SIGKILL, parent=os.getpid())
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _client(lab: Lab, source: int, target: int) -> subprocess.Popen[str]:
    # Measure from the first byte, because data that a delayed receiver finds after a warm-up would count as faster.
    return _start(lab, source, "-c", lab.machines[target].address, "-t", str(_SECONDS), "--json")


def _wait_for_listener(lab: Lab, machine: int) -> None:
    deadline = time.monotonic() + _DEADLINE_SECONDS
    words = [*lab.exec(machine), "cat", "/proc/net/tcp"]
    listening = re.compile(rf":{_PORT:04X} \S+ 0A ")
    while not listening.search(subprocess.run(words, capture_output=True, text=True, timeout=10).stdout):
        if time.monotonic() > deadline:
            raise Unavailable(f"iperf3 does not listen on {lab.machines[machine].host}")
        time.sleep(0.02)


def _result(client: subprocess.Popen[str]) -> float:
    try:
        out, _ = client.communicate(timeout=_DEADLINE_SECONDS)
        found = json.loads(out)
    except (subprocess.TimeoutExpired, ValueError) as error:
        raise Unavailable(f"iperf3 failed: {error}") from None
    if "error" in found:
        raise Unavailable(f"iperf3 failed: {found['error']}")
    return float(found["end"]["sum_received"]["bits_per_second"]) / 8


@contextmanager
def _ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
