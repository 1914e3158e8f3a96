"""How one direction of a link is held to its rate, and given its latency, with `tc`.

A token bucket (tbf) holds the rate. Its bucket is what the link carries in 1 ms: long packets (GSO) fit in, and yet a
message is slowed from its first kilobytes on. Its queue is 10 ms, as that of a switch: long enough for TCP to fill the
link, short enough that nothing waits behind a flow for long.
"""

from __future__ import annotations

import math

from paceline.lab.namespaces import Unavailable, tc

BUCKET_SECONDS = 0.001
QUEUE_SECONDS = 0.010
LEAST_BUCKET = 8_000
WIRE_LATENCY = 50e-6
"""Seconds that a message takes between two namespaces anyhow; only a longer latency has to be made."""

_LONGEST_PACKET = 65_536
_PACKET = 1514
_HEADERS = 0.9
"""The share of a bucket that a long packet may fill: its payload is counted with the headers of each of its parts."""


def shape(namespace: str, device: str, rate: float, latency: float) -> None:
    """Holds what leaves through `device` to `rate` bytes/s (infinite: not held) and delays it by `latency` seconds.

    Raises Unavailable, also where the kernel can't delay.
    """
    delayed = latency > WIRE_LATENCY
    place = ["root"]
    if math.isfinite(rate):
        burst = bucket(rate)
        limit = burst + round(rate * QUEUE_SECONDS)
        held = ("tbf", "rate", f"{round(rate * 8)}bit", "burst", str(burst), "limit", str(limit))
        tc("-n", namespace, "qdisc", "add", "dev", device, *place, "handle", "1:", *held)
        place = ["parent", "1:1"]
    if delayed:
        packets = 1000 if math.isinf(rate) else math.ceil(rate * (latency + QUEUE_SECONDS) / _PACKET) + 1
        delay = ("netem", "delay", f"{round((latency - WIRE_LATENCY) * 1e6)}us", "limit", str(packets))
        try:
            tc("-n", namespace, "qdisc", "add", "dev", device, *place, *delay)
        except Unavailable as reason:
            raise Unavailable(
                f"a latency of {latency * 1e6:g} us needs the kernel's netem: {reason}\n"
                f"Without it the lab makes latencies of up to {WIRE_LATENCY * 1e6:g} us."
            ) from None


def bucket(rate: float) -> int:
    """Bytes that may pass at once on a link of `rate` bytes/s."""
    return max(LEAST_BUCKET, round(rate * BUCKET_SECONDS))


def longest_packet(rates: list[float]) -> int:
    """Bytes of the longest packet that senders should make where links have these rates, so that it fits in buckets."""
    return min(
        _LONGEST_PACKET, *(round(bucket(rate) * _HEADERS) for rate in rates if math.isfinite(rate)), _LONGEST_PACKET
    )
