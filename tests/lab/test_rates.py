"""Links carry what they are said to carry, in both directions at once, also behind a switch.

That no stream is faster than its link is measured by iperf3. That none is slower is the kernel's business, and that of
whatever else keeps the CPU busy: what counts is what the kernel was told.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from test_lab import MBIT, machine

from paceline.lab.lab import Lab
from paceline.lab.namespaces import Unavailable
from paceline.lab.speed import Flow, flows, together
from paceline.topology import Link, Node, Topology

pytestmark = [pytest.mark.needs("a lab"), pytest.mark.needs("iperf3")]

PAYLOAD = 1448 / 1514
"""Of an Ethernet frame with TCP's timestamps; acknowledgements of the other direction take some of the link too."""

ROUND_TRIP = """
import socket, time
while True:
    try:
        there = socket.create_connection(("b", 5000), 5)
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
took = []
for _ in range(5):
    begin = time.perf_counter()
    there.sendall(b"x")
    there.recv(1)
    took.append(time.perf_counter() - begin)
print(min(took))
"""


@pytest.mark.parametrize("rate", [100, 500])
def test_two_machines_send_to_each_other_at_the_links_rate(rate: float) -> None:
    link = Link(rate * MBIT, rate * MBIT)
    with Lab(Topology("pair", Node("switch", "s", None, (machine("a", link), machine("b", link))))) as lab:
        check(lab, together(lab, [(0, 1), (1, 0)]), [rate, rate])


def test_each_direction_and_a_nested_switch_have_their_own_rates() -> None:
    fast = Link(200 * MBIT, 200 * MBIT)
    rack = Node("switch", "rack", Link(80 * MBIT, 40 * MBIT), (machine("b", fast), machine("c", fast)))
    with Lab(Topology("nested", Node("switch", "top", None, (machine("a", fast), rack)))) as lab:
        check(lab, together(lab, [(0, 1), (1, 0)]), [40, 80])
        crossed = {traffic.name: traffic for traffic in lab.traffic()}
        check(lab, flows(lab), [40, 200, 80])
    # What crosses the rack's link arrives; what its queue drops was sent on the link before it.
    assert crossed["a"].up >= crossed["rack"].down == pytest.approx(crossed["b"].down, rel=0.01)
    assert crossed["b"].up >= crossed["rack"].up == pytest.approx(crossed["a"].down, rel=0.01)
    assert min(crossed["rack"].down, crossed["rack"].up) > 10 * crossed["c"].up


def check(lab: Lab, measured: list[Flow], rates: list[float]) -> None:
    """The streams' links have these rates, none of the streams is faster, and the kernel knows every link's rate."""
    assert [flow.rate / MBIT for flow in measured] == rates
    assert all(0 < flow.efficiency < 1.01 * PAYLOAD for flow in measured)
    for uplink in lab.uplinks:
        assert held(uplink.below, uplink.device) == uplink.link.up
        assert held(uplink.switch, uplink.port) == uplink.link.down


def held(namespace: str, device: str) -> float:
    """Bytes/s that the kernel lets leave through this device at most."""
    words = ["tc", "-n", namespace, "class", "show", "dev", device]
    shown = subprocess.run(words, capture_output=True, text=True, timeout=150, check=True).stdout
    (rate,) = re.findall(r"^class htb 1:1 root rate (\S+) ceil", shown, re.MULTILINE)
    ceilings = set(re.findall(r" ceil (\S+) ", shown))
    assert ceilings == {rate}
    number, unit = re.fullmatch(r"(\d+)([KM]?)bit", rate).groups()  # type: ignore[union-attr]
    return int(number) * {"": 1, "K": 1e3, "M": 1e6}[unit] / 8


def test_a_link_changes_while_it_is_used_and_can_be_cut() -> None:
    link = Link(200 * MBIT, 200 * MBIT)
    lab = Lab(Topology("pair", Node("switch", "s", None, (machine("a", link), machine("b", link)))))
    with lab:
        check(lab, together(lab, [(0, 1)]), [200])
        lab.change("b", Link(200 * MBIT, 140 * MBIT))
        assert together(lab, [(0, 1)])[0].carried < 1.01 * PAYLOAD * 140 * MBIT
        uplink = next(uplink for uplink in lab.uplinks if uplink.name == "b")
        assert held(uplink.switch, uplink.port) == 140 * MBIT
        assert held(uplink.below, uplink.device) == 200 * MBIT
        lab.cut("b")
        reach = "import socket; socket.create_connection(('b', 5201), 1)"
        done = subprocess.run([*lab.exec(0), sys.executable, "-c", reach], capture_output=True, text=True, timeout=150)
        assert "TimeoutError" in done.stderr
        with pytest.raises(ValueError, match="it has a, b"):
            lab.cut("c")


def test_machines_without_limits_are_not_measured() -> None:
    with Lab(Topology("free", Node("switch", "s", None, (machine("a", None), machine("b", None))))) as lab:
        assert flows(lab) == []


def test_a_longer_latency_is_made_or_refused() -> None:
    link = Link(1000 * MBIT, 1000 * MBIT, 0.010)
    lab = Lab(Topology("far", Node("switch", "s", None, (machine("a", link), machine("b", link)))))
    if not kernel_can_delay():
        with pytest.raises(Unavailable, match="needs the kernel's netem"), lab:
            pass
        return
    with lab:
        show = "import socket; s = socket.create_server(('b', 5000)); print('ready', flush=True); c = s.accept()[0]"
        echo = [*lab.exec(1), sys.executable, "-c", f"{show}\nfor _ in range(5): c.sendall(c.recv(1))"]
        with subprocess.Popen(echo, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            server.stdout.readline()
            words = [*lab.exec(0), sys.executable, "-c", ROUND_TRIP]
            seconds = json.loads(subprocess.run(words, capture_output=True, timeout=150, check=True).stdout)
    assert 0.039 < seconds < 4  # the least of five, as a busy machine adds to some; in a wrong unit it would be 40


def kernel_can_delay() -> bool:
    words = ["unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"]
    return subprocess.run(words, capture_output=True, timeout=150).returncode == 0
