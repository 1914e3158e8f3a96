"""What plans cost: the published table, hand-made cases, and the bound that nothing beats."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from trees import GBIT, link, machines, on_cpus

from paceline.calibration.plan import CROWDED_MESSAGE_SECONDS, HEADER_BYTES, LOCAL_MESSAGE_SECONDS, MESSAGE_SECONDS
from paceline.plan.algorithms import ALGORITHMS, named
from paceline.plan.bound import bound
from paceline.plan.cost import Cost, cost
from paceline.plan.exchange import exchange
from paceline.plan.ir import WHOLE, Plan, Reduce, block
from paceline.plan.network import Network
from paceline.plan.outline import outline
from paceline.plan.verify import verify
from paceline.topology import Cpus, Link, Node, Topology

BYTES = 120_000_000
MANY_CHUNKS = 1024

# Machines' ranks, their uplinks in Gbit/s; seconds for 120 MB of ring, BlueConnect, FlexReduce and the optimum.
TABLE = [
    ((2, 3), (1, 1), 1.536, 1.536, 1.088, 0.960),
    ((3, 3, 4), (1, 1, 0.5), 3.456, 3.456, 2.704, 1.920),
    ((2, 3, 4, 4), (1, 1, 1, 0.8), 2.215, 2.215, 1.944, 1.516),
    ((4,) * 8, (1,) * 7 + (0.5,), 3.720, 3.504, 3.504, 1.920),
]


def predicted(name: str, topology: Topology, nbytes: int = BYTES) -> Cost:
    return cost(named(name).lines(topology), topology, nbytes, MANY_CHUNKS)


@pytest.mark.parametrize(("sizes", "uplinks", "ring", "blueconnect", "flexreduce", "optimum"), TABLE)
def test_the_table(
    sizes: tuple[int, ...],
    uplinks: tuple[float, ...],
    ring: float,
    blueconnect: float,
    flexreduce: float,
    optimum: float,
) -> None:
    """With barriers the three known algorithms; in chunks Paceline's own."""
    topology = machines(sizes, uplinks)
    assert round(predicted("ring", topology).barrier, 3) == ring
    assert round(predicted("blueconnect", topology).barrier, 3) == blueconnect
    assert round(predicted("flexreduce", topology).barrier, 3) == flexreduce
    assert round(predicted("paceline", topology).seconds, 3) == optimum
    assert round(bound(topology, BYTES).seconds, 3) == optimum


def test_in_one_shot_every_uplink_is_crossed_once() -> None:
    topology = machines((2, 3), (0.5, 0.5), latency=5e-5)
    once = cost(outline(exchange(topology), one_shot=True), topology, 4096)
    inside = LOCAL_MESSAGE_SECONDS + 2 * 4096 / (10 * GBIT)  # two to one leader, one after the other
    assert once.seconds == pytest.approx(2 * inside + 2 * 5e-5 + 4096 / (0.5 * GBIT))
    assert [link.bytes for link in once.links if link.kind == "machine"] == pytest.approx([4096, 4096])
    twice = cost(outline(exchange(topology)), topology, 4096)
    assert twice.seconds == pytest.approx(once.seconds + 2 * 5e-5 + 4096 / (0.5 * GBIT))


def test_what_the_issue_measures_beside_the_bound() -> None:
    """32 MiB at 500 Mbit/s: T* in milliseconds, with links that give 957 of 1000."""
    rate = 0.5 * 0.957
    for sizes, uplinks, milliseconds in (
        ((2, 3), (rate, rate), 561),
        ((2, 2, 3), (rate,) * 3, 748),
        ((1, 1, 1), (rate, rate, 0.4 * rate), 1402),
    ):
        assert bound(machines(sizes, uplinks), 32 << 20).seconds * 1e3 == pytest.approx(milliseconds, abs=1)


def test_a_message_loads_every_link_of_its_path_upwards_and_downwards() -> None:
    topology = machines((1, 2), (1, 2), local=4)
    one = cost(Plan(3, "one", ((Reduce(WHOLE, (0, 1, 2), 2),),)), topology, 1000)
    assert {link.name: (link.up, link.down) for link in one.links} == {
        "machine 0": (1000, 0),
        "rank 0": (1000, 0),
        "machine 1": (0, 1000),
        "rank 1": (1000, 0),
        "rank 2": (0, 2000),
    }
    assert one.busiest is not None and one.busiest.name == "machine 0"
    assert all(link.bytes == link.up + link.down for link in one.links)


def test_each_half_takes_what_its_slower_way_takes() -> None:
    """1 Gbit/s up, a quarter of that down: the reduce-scatter goes up, the all-gather comes down."""
    inside = (Node("machine", "a", link(1, 0.25), (Node("rank", "", link(10)),)),)
    topology = Topology("t", Node("switch", "s", None, (*inside, *machines((1,), (1,)).root.children)))
    one = cost(Plan(2, "one", ((Reduce(WHOLE, (0, 1), 1),),)), topology, int(GBIT), chunk=int(GBIT))
    assert (one.levels[0].reduce_scatter, one.levels[0].all_gather) == pytest.approx((1, 4))
    assert (one.seconds, one.barrier) == pytest.approx((5, 5))
    # Each way carries the buffer once; in many chunks the way down is never idle.
    assert cost(Plan(2, "one", ((Reduce(WHOLE, (0, 1), 1),),)), topology, int(GBIT), 1000).seconds == pytest.approx(
        4, 1e-4
    )


def test_latency_is_that_of_the_longest_chain_of_messages() -> None:
    topology = machines((2, 2), (1, 1), latency=50e-6)
    ring = cost(named("ring").plan(topology), topology, 0)
    assert ring.seconds == pytest.approx(2 * 2 * 100e-6)  # of three hops in a row two are between machines
    assert ring.barrier == pytest.approx(2 * 3 * 100e-6)
    assert [level.messages for level in ring.levels] == [4, 4, 4]
    flexreduce = cost(named("flexreduce").plan(topology), topology, 0)
    assert flexreduce.seconds == pytest.approx(2 * 100e-6)
    direct = Plan(4, "one", ((Reduce(WHOLE, (0, 1, 2, 3), 0),),))
    # Two copies come from the other machine, one after the other, and one from beside.
    assert cost(direct, topology, 0).seconds == pytest.approx(2 * (100e-6 + MESSAGE_SECONDS + LOCAL_MESSAGE_SECONDS))
    apart = machines((1, 1, 1), (1, 1, 1), latency=50e-6)
    # In both levels of the tree somebody sends to its root, without waiting for anybody.
    assert cost(named("tree").plan(apart), apart, 0).seconds == pytest.approx(2 * (100e-6 + MESSAGE_SECONDS))


@pytest.mark.parametrize("world", [5, 300])
def test_levels_that_repeat_each_other_take_as_long_as_written_out(world: int) -> None:
    topology = machines((world - 2, 2), (1, 1), latency=50e-6)
    for name in ("ring", "leaders"):
        written, counted = named(name).plan(topology), named(name).lines(topology)
        assert cost(counted, topology, 0).latency == pytest.approx(cost(written, topology, 0).latency, rel=0.01)


def test_bursts_spare_every_way_but_not_what_the_links_carry_in_all() -> None:
    """1 Gbit/s and a burst of 1 ms, 125 kB: a tree of two steps up and two down, whose root's link carries 2 copies."""
    wire, bucket = (cost(named("tree").lines(with_burst(burst)), with_burst(burst), 1).line for burst in (0.0, 1e-3))
    for nbytes in (1000, 62_500, 125_000, 200_000, 500_000):
        way = nbytes / GBIT
        assert wire.seconds(nbytes) == pytest.approx(4 * way)
        ways, carried = 4 * max(0, way - 1e-3), 2 * (way + HEADER_BYTES / GBIT)
        assert bucket.seconds(nbytes) == pytest.approx(max(ways, carried) + 0.1 * min(ways, carried))


def test_cpus_that_ranks_share_are_busy_with_every_message() -> None:
    topology = machines((1,) * 8, (1,) * 8)
    each = [list(range(8)), [0, 4]]  # all with all, and one pair alone
    for ranks in each:
        level = tuple(Reduce(block(index, len(ranks)), tuple(ranks), rank) for index, rank in enumerate(ranks))
        plan = Plan(8, "one", (level,))
        busy = 2 * 2 * len(ranks) * (len(ranks) - 1) * CROWDED_MESSAGE_SECONDS  # both ends, both halves
        alone = cost(plan, topology, 64)
        for cpus in (1, 2, 7):
            assert cost(plan, on_cpus(topology, cpus), 64).seconds == pytest.approx(max(alone.seconds, busy / cpus))
        assert cost(plan, on_cpus(topology, 8), 64).seconds == alone.seconds
        assert cost(plan, on_cpus(topology, 1), 64).all_gather.seconds(64) == pytest.approx(busy / 2)
        # Every chunk takes them anew.
        assert cost(plan, on_cpus(topology, 1), 64 * 10, 64).seconds == pytest.approx(10 * busy)


def test_machines_of_their_own_share_no_cpus() -> None:
    topology = machines((2, 4), (1, 1))
    own = [replace(node, cpus=Cpus(node.name, 3)) for node in topology.root.children]
    network = Network(replace(topology, root=replace(topology.root, children=tuple(own))))
    assert [(list(ranks), cpus) for ranks, cpus in network.crowds] == [([2, 3, 4, 5], 3)]


def with_burst(burst: float) -> Topology:
    uplink = Link(GBIT, GBIT, burst=burst)
    inside = (Node("rank", "", link(1000)),)
    parts = tuple(Node("machine", name, uplink, inside) for name in "abc")
    return Topology("t", Node("switch", "s", None, parts))


def test_chunks_overlap_but_the_first_goes_through_all_levels() -> None:
    topology = machines((3, 3, 4), (1, 1, 0.5))
    one, many = (cost(named("paceline").plan(topology), topology, BYTES, chunk) for chunk in (BYTES, MANY_CHUNKS))
    assert one.seconds == pytest.approx(one.barrier)
    assert one.seconds > 1.9 * many.seconds
    half = cost(named("paceline").plan(topology), topology, BYTES, BYTES // 2)
    assert half.seconds == pytest.approx((one.seconds + many.seconds) / 2, rel=1e-3)


def test_the_bound_says_what_it_is_due_to() -> None:
    slow = bound(machines((3, 3, 4), (1, 1, 0.5)), BYTES)
    assert slow.reason == "The link of machine 2 carries the whole buffer each way."
    meeting = bound(machines((2, 3, 4, 4), (1, 1, 1, 0.8)), BYTES)
    assert meeting.reason == "At top 4 parts of the network meet, which takes 6 crossings an item."
    assert bound(machines((1,), (1,)), BYTES).seconds == 0


def test_the_plan_must_be_for_these_ranks() -> None:
    with pytest.raises(ValueError, match="for 3 ranks, the topology has 5"):
        cost(Plan(3, "none", ()), machines((2, 3), (1, 1)), 1)


def test_links_without_limit() -> None:
    """In time none; but plans are made all the same."""
    topology = machines((2, 3), (math.inf, math.inf), local=math.inf)
    for name in ALGORITHMS:
        assert verify(named(name).plan(topology))
        assert predicted(name, topology).seconds < 1e-3
    mixed = machines((2, 3, 1), (math.inf, 1, math.inf), local=math.inf)
    assert predicted("paceline", mixed).seconds == pytest.approx(bound(mixed, BYTES).seconds, rel=1e-3)
