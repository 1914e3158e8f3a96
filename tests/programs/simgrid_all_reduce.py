"""Carries out programs in SimGrid, on a tree of links: what `tests/simulate/test_simgrid.py` compares with.

It runs in Debian's own Python, which has the module `simgrid`, and knows nothing of Paceline. It reads JSON from its
standard input (nodes, leaves and programs, see the test) and prints the seconds after which the last rank is done.

One actor for each pair of ranks carries their messages one after the other, as a TCP connection does. SimGrid would let
a message's latency pass before its first byte, with the connection idle; so links have none there, and a message is
late by it once its last byte has come.
"""

import json
import sys
from collections import deque
from functools import cache

from simgrid import Actor, Comm, Engine, Host, LinkInRoute, NetZone, Semaphore, this_actor

PURE = ("network/model:CM02", "network/TCP-gamma:1e15", "network/crosstraffic:0", "network/loopback-bw:1e15")
"""Max-min shares alone: no factors on bandwidth, no window, no acknowledgements on the way back."""


class Carrier:
    """Carries what one rank sends to another."""

    def __init__(self, ends, latency):
        self.queue, self.some, self.ends, self.latency = deque(), Semaphore(0), ends, latency

    def put(self, nbytes, left, come):
        self.queue.append((nbytes, left, come))
        self.some.release()

    def run(self):
        while True:
            self.some.acquire()
            nbytes, left, come = self.queue.popleft()
            Comm.sendto(*self.ends, max(1, nbytes))
            left.release()
            Actor.create("on its way", self.ends[1], arrive, self.latency, come)


def arrive(latency, come):
    this_actor.sleep_for(latency)
    come.release()


def make_platform(engine, nodes, leaves):
    zone, add_link, add_host, ends = empty_zone(engine)
    links = [
        [add_link(f"{way} {i}", speed).seal() for way, speed in (("up", up), ("down", down)) if parent >= 0]
        for i, (parent, up, down, _) in enumerate(nodes)
    ]
    hosts = [add_host(f"rank {rank}", 1e9).seal() for rank in range(len(leaves))]
    carriers = {}
    for a in range(len(leaves)):
        for b in range(len(leaves)):
            if a != b:
                ups, downs = path(nodes, leaves[a], leaves[b])
                route = [LinkInRoute(links[i][0]) for i in ups] + [LinkInRoute(links[i][1]) for i in downs]
                zone.add_route(*ends(hosts[a], hosts[b]), route, False)
                carriers[a, b] = (hosts[a], hosts[b]), sum(nodes[i][3] for i in ups + downs)
    zone.seal()
    return hosts, {pair: Carrier(*each) for pair, each in carriers.items()}


def empty_zone(engine):
    """Returns a zone with routes of our own, what adds a link and a host to it, and how a route's ends are told.

    SimGrid has other names for these from version 4 on.
    """
    if hasattr(NetZone, "add_netzone_full"):
        zone = engine.netzone_root.add_netzone_full("tree")
        return zone, zone.add_link, zone.add_host, lambda a, b: (a, b)
    zone = NetZone.create_full_zone("tree")
    return zone, zone.create_link, zone.create_host, lambda a, b: (a.netpoint, b.netpoint, None, None)


def path(nodes, up, down):
    ups, downs = [], []
    while up != down:
        if up > down:
            ups.append(up)
            up = nodes[up][0]
        else:
            downs.append(down)
            down = nodes[down][0]
    return ups, downs[::-1]


@cache
def message(sender, receiver, tag):
    """Whether it has come."""
    return Semaphore(0)


def track(rank, stages, carriers):
    left, sends = Semaphore(0), 0
    for stage in stages:
        for sent, peer, tag, nbytes in stage:
            if sent:
                carriers[rank, peer].put(nbytes, left, message(rank, peer, tag))
                sends += 1
        for sent, peer, tag, _ in stage:
            if not sent:
                message(peer, rank, tag).acquire()
    for _ in range(sends):
        left.acquire()


def run_rank(rank, in_flight, tracks, carriers):
    actors = []
    for number, stages in enumerate(tracks):
        if number >= in_flight:
            actors[number - in_flight].join()
        actors.append(Actor.create(f"track {number}", Host.current(), track, rank, stages, carriers))
    for actor in actors[-in_flight:]:
        actor.join()


def main():
    engine = Engine([sys.argv[0], "--log=root.thresh:warning", *(f"--cfg={each}" for each in PURE)])
    given = json.load(sys.stdin)
    hosts, carriers = make_platform(engine, given["nodes"], given["leaves"])
    for (sender, _), carrier in carriers.items():
        Actor.create("carrier", hosts[sender], carrier.run).daemonize()
    for rank, (in_flight, tracks) in enumerate(given["programs"]):
        Actor.create(f"rank {rank}", hosts[rank], run_rank, rank, in_flight, tracks, carriers)
    engine.run()
    print(engine.clock)


main()
