"""A link's queue is what was asked for: how much waits, who goes first, and what a policer lets cross at once."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from test_lab import MBIT, machine
from test_rates import held

from paceline.lab.lab import Lab
from paceline.lab.shaping import Discipline, Queue, longest_packet
from paceline.topology import Link, Node, Topology, read

RATE = 80 * MBIT
BUCKET = 16_000
"""Bytes: the least there is, as 1 ms of the rate is less."""


def pair(queue: Queue) -> Lab:
    link = Link(RATE, RATE)
    topology = Topology("pair", Node("switch", "s", None, (machine("a", link), machine("b", link))))
    return Lab(topology, queue=queue)


def limits(namespace: str, device: str) -> list[int]:
    """Bytes that the kernel lets wait at each place behind this device."""
    words = ["tc", "-n", namespace, "-json", "qdisc", "show", "dev", device]
    shown = json.loads(subprocess.run(words, capture_output=True, text=True, timeout=150, check=True).stdout)
    return [one["options"]["limit"] for one in shown if one["kind"] == "bfifo"]


def buckets(namespace: str, device: str) -> set[str]:
    words = ["tc", "-n", namespace, "class", "show", "dev", device]
    shown = subprocess.run(words, capture_output=True, text=True, timeout=150, check=True).stdout
    return set(re.findall(r" cburst (\S+)", shown))


@pytest.mark.needs("a lab")
@pytest.mark.parametrize(
    ("queue", "waiting", "bucket"),
    [
        (Queue(), [BUCKET + RATE * 0.010] * 2, "16000b"),
        (Queue(0.002), [BUCKET + RATE * 0.002] * 2, "16000b"),
        (Queue(0.200, Discipline.DROP_TAIL), [BUCKET + RATE * 0.200], "16000b"),
        (Queue(0.050, Discipline.POLICER), [BUCKET], "516000b"),
    ],
    ids=["usual", "2 ms", "drop-tail", "policer"],
)
def test_the_kernel_is_told_of_the_queue_at_both_ends_of_a_link(
    queue: Queue, waiting: list[float], bucket: str
) -> None:
    with pair(queue) as lab:
        for uplink in lab.uplinks:
            for end in ((uplink.below, uplink.device), (uplink.switch, uplink.port)):
                assert limits(*end) == waiting
                assert buckets(*end) == {bucket}
                assert held(*end) == RATE


@pytest.mark.needs("a lab")
@pytest.mark.parametrize("discipline", list(Discipline))
def test_a_link_with_any_queue_can_change(discipline: Discipline) -> None:
    queue = Queue(0.050, discipline)
    with pair(queue) as lab:
        uplink = lab.uplinks[0]
        lab.change("a", Link(2 * RATE, RATE))
        assert held(uplink.below, uplink.device) == 2 * RATE
        assert set(limits(uplink.below, uplink.device)) == {queue.room(2 * RATE, uplink.link)}


def test_jobs_are_told_what_a_policer_lets_cross_at_once(tmp_path: Path) -> None:
    file = tmp_path / "pair.yaml"
    file.write_text(
        "burst: 1 ms\nchildren:\n"
        + "".join(f"  - {{machine: {name}, ranks: 1, uplink: 500 Mbit/s}}\n" for name in "ab")
    )
    lab = Lab(read(file), file, queue=Queue(0.050, Discipline.POLICER))
    told = read(Path(lab.environment(0)["PACELINE_TOPOLOGY"]))
    assert [node.uplink.burst for node in told.root.children if node.uplink] == [0.051] * 2
    inside = Lab.inside(lab.environment(1))
    assert inside is not None
    assert inside[0].topology == lab.topology


@pytest.mark.parametrize("discipline", list(Discipline))
def test_a_long_packet_fits_in_every_queue(discipline: Discipline) -> None:
    for burst in (0.001, 0.050):
        link = Link(RATE, 2 * RATE, burst=burst)
        queue = Queue(0.002, discipline)
        longest = longest_packet([link], queue)
        assert longest <= min(queue.room(rate, link) for rate in (link.up, link.down))
        assert longest >= 0.9 * BUCKET
