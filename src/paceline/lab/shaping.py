"""Limits one direction of a link to its rate, and gives it its latency, with `tc`.

Hierarchical token buckets (htb) limit the rate. The bucket holds what the link carries in its `burst`, which is 1 ms if
the topology gives none: long packets (GSO) fit in, and yet a message is slowed from its first kilobytes on. What waits
for the link is a Queue.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from paceline.lab.namespaces import Unavailable, tc
from paceline.topology import Link, Node

BUCKET_SECONDS = 0.001
"""The bucket of a link without a `burst`, in seconds at the link's rate."""
LEAST_BUCKET = 16_000
"""The smallest bucket, in bytes."""
WIRE_LATENCY = 50e-6
"""Seconds that a message takes between two namespaces anyway; only longer latencies have to be added."""

_LONGEST_PACKET = 65_536
"""Bytes of the longest packet (GSO) that Linux makes by default."""
_PACKET = 1514
"""Bytes of a full Ethernet frame."""
_HEADERS = 0.9
"""The share of a bucket that a long packet may fill: its payload is counted with the headers of each of its parts."""
# Matches an IPv4 packet of less than 128 bytes by the length in its header.
_SHORT = ("protocol", "ip", "u32", "match", "u16", "0x0000", "0xff80", "at", "2")
_SHORT_SHARE = 0.1
"""The share of the rate that short packets are guaranteed."""


class Discipline(str, Enum):
    """A queueing discipline: who goes first, and who is dropped."""

    SHORT_FIRST = "short-first"
    """Short packets have a queue of their own that goes first, as fq_codel lets them: acknowledgements that wait behind
    the data of the other direction can slow TCP's streams by as much as half. Unlike there they overtake the data of
    their own stream too."""
    DROP_TAIL = "drop-tail"
    """The packets leave in the order in which they came; what comes when the queue is full is dropped."""
    POLICER = "policer"
    """Hardly anything waits: the bucket is larger by what the queue would hold, and what finds it empty is dropped."""


@dataclass(frozen=True)
class Queue:
    """The queue that forms where a link is full. seconds: how long the link needs to carry a full queue.

    The default is that of a switch: long enough for TCP to fill the link, short enough that nothing waits for long.
    """

    seconds: float = 0.010
    discipline: Discipline = Discipline.SHORT_FIRST

    @property
    def classes(self) -> tuple[tuple[str, float, int], ...]:
        """The classes of `tc`: each one's name, its share of the rate, and its priority."""
        if self.discipline is Discipline.SHORT_FIRST:
            return ("1:2", 1 - _SHORT_SHARE, 1), ("1:3", _SHORT_SHARE, 0)
        return (("1:2", 1.0, 0),)

    def room(self, rate: float, link: Link) -> int:
        """Bytes that wait at most where `link` carries `rate` bytes/s; a long packet always may."""
        if self.discipline is Discipline.POLICER:
            return max(LEAST_BUCKET, round(rate * BUCKET_SECONDS))
        return bucket(rate, link) + round(rate * self.seconds)


USUAL_QUEUE = Queue()


def held(node: Node, queue: Queue = USUAL_QUEUE) -> Node:
    """Return the node with the bursts that the lab's links really let pass, down to the machines."""
    if node.kind not in ("switch", "machine"):
        return node
    link = node.uplink and _held(node.uplink, queue)
    return replace(node, uplink=link, children=tuple(held(child, queue) for child in node.children))


def shape(namespace: str, device: str, rate: float, link: Link, queue: Queue) -> None:
    """Limit what leaves through `device`, an end of `link`, to `rate` bytes/s (inf: no limit) and delay it by the
    latency.

    Raises Unavailable if `tc` fails, also if the kernel cannot delay packets.
    """
    latency, delayed = link.latency, link.latency > WIRE_LATENCY
    if math.isfinite(rate):
        _hold(namespace, device, rate, link, queue, queues=not delayed)
    if delayed:
        packets = 1000
        if math.isfinite(rate):
            packets = math.ceil((rate * latency + queue.room(rate, link)) / _PACKET) + 1
        delay = ("netem", "delay", f"{round((latency - WIRE_LATENCY) * 1e6)}us", "limit", str(packets))
        places = [("parent", name) for name, _, _ in queue.classes] if math.isfinite(rate) else [("root",)]
        try:
            for place in places:
                tc("-n", namespace, "qdisc", "add", "dev", device, *place, *delay)
        except Unavailable as reason:
            raise Unavailable(
                f"a latency of {latency * 1e6:g} us needs the kernel's netem: {reason}\n"
                f"Without it the lab makes latencies of up to {WIRE_LATENCY * 1e6:g} us."
            ) from None


def change(namespace: str, device: str, rate: float, link: Link, queue: Queue) -> None:
    """Limit what leaves through `device` to another rate in bytes/s. `shape` must have limited it without a delay."""
    _hold(namespace, device, rate, link, queue, queues=True, verb="change")


def bucket(rate: float, link: Link) -> int:
    """Return the bytes that may pass at once where `link` carries `rate` bytes/s."""
    return max(LEAST_BUCKET, round(rate * link.burst))


def longest_packet(links: Sequence[Link], queue: Queue) -> int:
    """Return the bytes of the longest packet that senders should make: it fits in the links' buckets and queues."""
    rates = ((rate, link) for link in links for rate in (link.up, link.down) if math.isfinite(rate))
    room = (min(bucket(rate, link), queue.room(rate, link)) for rate, link in rates)
    return min([_LONGEST_PACKET, *(round(size * _HEADERS) for size in room)])


def _held(link: Link, queue: Queue) -> Link:
    rates = [rate for rate in (link.up, link.down) if math.isfinite(rate)]
    if not rates:
        return link
    burst = max(link.burst or BUCKET_SECONDS, LEAST_BUCKET / max(rates))
    if queue.discipline is Discipline.POLICER:
        burst = round(burst + queue.seconds, 9)
    return replace(link, burst=burst)


def _hold(namespace: str, device: str, rate: float, link: Link, queue: Queue, queues: bool, verb: str = "add") -> None:
    where, burst = ("-n", namespace), str(bucket(rate, link))
    whole = ("ceil", _bits(rate), "burst", burst, "cburst", burst, "quantum", str(_LONGEST_PACKET))
    limit = str(queue.room(rate, link))
    if verb == "add":
        tc(*where, "qdisc", verb, "dev", device, "root", "handle", "1:", "htb", "default", "2")
    tc_class = (*where, "class", verb, "dev", device, "parent")
    tc(*tc_class, "1:", "classid", "1:1", "htb", "rate", _bits(rate), *whole)
    for name, share, priority in queue.classes:
        tc(*tc_class, "1:1", "classid", name, "htb", "rate", _bits(rate * share), *whole, "prio", str(priority))
        if queues:
            handle = f"{name[2:]}0:"
            tc(*where, "qdisc", verb, "dev", device, "parent", name, "handle", handle, "bfifo", "limit", limit)
    if verb == "add" and queue.discipline is Discipline.SHORT_FIRST:
        tc(*where, "filter", verb, "dev", device, "parent", "1:", *_SHORT, "flowid", "1:3")


def _bits(rate: float) -> str:
    return f"{round(rate * 8)}bit"
