"""Limits one direction of a link to its rate, and gives it its latency, with `tc`.

Hierarchical token buckets (htb) limit the rate. The bucket holds what the link carries in its `burst`, which is 1 ms if
the topology gives none: long packets (GSO) fit in, and yet a message is slowed from its first kilobytes on. The queue
is 10 ms, like that of a switch: long enough for TCP to fill the link, short enough that nothing waits long behind a
flow. Short packets have a queue of their own with priority, as in fq_codel: if acknowledgements waited behind the data
of the other direction, TCP's streams would be slower by up to half, at random. Unlike in fq_codel, they overtake the
data of their own stream too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from paceline.lab.namespaces import Unavailable, tc
from paceline.topology import Link, Node

BUCKET_SECONDS = 0.001
"""The bucket of a link without a `burst`, in seconds at the link's rate."""
QUEUE_SECONDS = 0.010
"""The length of a link's queue, in seconds at the link's rate."""
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


def held(node: Node) -> Node:
    """Return the node with the bursts that the lab's links really let pass, down to the machines."""
    if node.kind not in ("switch", "machine"):
        return node
    link = node.uplink and _held(node.uplink)
    return replace(node, uplink=link, children=tuple(held(child) for child in node.children))


def shape(namespace: str, device: str, rate: float, link: Link) -> None:
    """Limit what leaves through `device`, an end of `link`, to `rate` bytes/s (inf: no limit) and delay it by the
    latency.

    Raises Unavailable if `tc` fails, also if the kernel cannot delay packets.
    """
    latency, delayed = link.latency, link.latency > WIRE_LATENCY
    if math.isfinite(rate):
        _hold(namespace, device, rate, bucket(rate, link), queues=not delayed)
    if delayed:
        packets = 1000 if math.isinf(rate) else math.ceil(rate * (latency + QUEUE_SECONDS) / _PACKET) + 1
        delay = ("netem", "delay", f"{round((latency - WIRE_LATENCY) * 1e6)}us", "limit", str(packets))
        places = [("parent", "1:2"), ("parent", "1:3")] if math.isfinite(rate) else [("root",)]
        try:
            for place in places:
                tc("-n", namespace, "qdisc", "add", "dev", device, *place, *delay)
        except Unavailable as reason:
            raise Unavailable(
                f"a latency of {latency * 1e6:g} us needs the kernel's netem: {reason}\n"
                f"Without it the lab makes latencies of up to {WIRE_LATENCY * 1e6:g} us."
            ) from None


def change(namespace: str, device: str, rate: float, link: Link) -> None:
    """Limit what leaves through `device` to another rate in bytes/s. `shape` must have limited it without a delay."""
    _hold(namespace, device, rate, bucket(rate, link), queues=True, verb="change")


def bucket(rate: float, link: Link) -> int:
    """Return the bytes that may pass at once where `link` carries `rate` bytes/s."""
    return max(LEAST_BUCKET, round(rate * link.burst))


def longest_packet(links: Sequence[Link]) -> int:
    """Return the bytes of the longest packet that senders should make, so that it fits in the links' buckets."""
    rates = ((rate, link) for link in links for rate in (link.up, link.down) if math.isfinite(rate))
    return min([_LONGEST_PACKET, *(round(bucket(rate, link) * _HEADERS) for rate, link in rates)])


def _held(link: Link) -> Link:
    rates = [rate for rate in (link.up, link.down) if math.isfinite(rate)]
    if not rates:
        return link
    return replace(link, burst=max(link.burst or BUCKET_SECONDS, LEAST_BUCKET / max(rates)))


def _hold(namespace: str, device: str, rate: float, burst: int, queues: bool, verb: str = "add") -> None:
    where = ("-n", namespace)
    whole = ("ceil", _bits(rate), "burst", str(burst), "cburst", str(burst), "quantum", str(_LONGEST_PACKET))
    limit = burst + round(rate * QUEUE_SECONDS)
    if verb == "add":
        tc(*where, "qdisc", verb, "dev", device, "root", "handle", "1:", "htb", "default", "2")
    tc_class = (*where, "class", verb, "dev", device, "parent")
    tc(*tc_class, "1:", "classid", "1:1", "htb", "rate", _bits(rate), *whole)
    for name, share, priority in (("1:2", 1 - _SHORT_SHARE, "1"), ("1:3", _SHORT_SHARE, "0")):
        tc(*tc_class, "1:1", "classid", name, "htb", "rate", _bits(rate * share), *whole, "prio", priority)
        if queues:
            handle = f"{name[2:]}0:"
            tc(*where, "qdisc", verb, "dev", device, "parent", name, "handle", handle, "bfifo", "limit", str(limit))
    if verb == "add":
        tc(*where, "filter", verb, "dev", device, "parent", "1:", *_SHORT, "flowid", "1:3")


def _bits(rate: float) -> str:
    return f"{round(rate * 8)}bit"
