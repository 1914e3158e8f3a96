"""What the cost model says of codecs, and where it has all-reduces encoded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees import GBIT, link, machines, on_cpus, trees

from paceline.plan.algorithms import ALGORITHMS, named
from paceline.plan.auto import CODEC, Encoding, encoding, exact
from paceline.plan.between import SIZES
from paceline.plan.choice import serving
from paceline.plan.choose import choose
from paceline.plan.chunk import chunk_bytes
from paceline.plan.codecs import CODECS, ENCODED_FROM, Codec
from paceline.plan.cost import cost
from paceline.plan.network import Network
from paceline.settings.names import NONE
from paceline.topology import Node, Topology, read

BYTES = 32 << 20
every_codec = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
few = settings(max_examples=25)  # each compares all algorithms at all sizes
sizes = st.lists(st.integers(1, 4), min_size=2, max_size=6)


NETWORKS = sorted((Path(__file__).parents[2] / "docs" / "topologies").glob("*.yaml"))


def with_links(topology: Topology, gbits: float) -> Topology:
    """With links of this speed everywhere."""

    def changed(node: Node) -> Node:
        uplink = link(gbits) if node.uplink is not None else None
        return replace(node, uplink=uplink, children=tuple(map(changed, node.children)))

    return replace(topology, root=changed(topology.root))


@few
@given(trees(most=24), st.sampled_from(sorted(ALGORITHMS)), st.sampled_from(list(CODECS.values())))
def test_links_between_machines_carry_so_many_bytes_less_and_others_what_crosses_of_them(
    topology: Topology, algorithm: str, codec: Codec
) -> None:
    lines = named(algorithm).lines(topology)
    plain, coded = (cost(lines, topology, BYTES, codec=one) for one in (None, codec))
    assert (plain.codec, coded.codec) == (NONE, codec.name)
    for one, other in zip(plain.links, coded.links, strict=True):
        if one.kind in ("switch", "machine"):
            assert other.bytes == pytest.approx(one.bytes / codec.ratio)
            assert other.seconds == pytest.approx(one.seconds / codec.ratio)
        else:
            assert one.bytes / codec.ratio <= other.bytes * (1 + 1e-9) <= one.bytes * (1 + 2e-9)
    between = any(one.bytes for one in plain.links if one.kind in ("switch", "machine"))
    assert (coded.coding > 0) == between
    assert plain.coding == 0


@every_codec
def test_what_a_rank_sends_to_another_machine_is_encoded_on_its_own_link_too(codec: Codec) -> None:
    topology = machines((1, 1), (40, 40), local=10)
    plain, coded = (cost(named("ring").lines(topology), topology, BYTES, codec=one) for one in (None, codec))
    assert plain.busiest is not None and plain.busiest.kind == "rank"
    for one, other in zip(plain.links, coded.links, strict=True):
        assert other.bytes == pytest.approx(one.bytes / codec.ratio)


@every_codec
def test_coding_takes_what_a_core_takes_for_all_that_crosses(codec: Codec) -> None:
    topology = machines((1, 1), (1, 1))
    alone = cost(named("ring").lines(topology), topology, BYTES, codec=codec)
    # A half of the buffer is sent and another received, in each half, by each rank.
    assert alone.coding == pytest.approx(BYTES * codec.seconds)
    shared = on_cpus(topology, 1)  # two ranks
    assert cost(named("ring").lines(shared), shared, BYTES, codec=codec).coding == pytest.approx(2 * alone.coding)


@given(st.integers(1, 8), st.sampled_from([0.1, 1, 10]))
def test_nothing_is_encoded_on_one_machine(ranks: int, local: float) -> None:
    found = encoding(machines((ranks,), (1,), local))
    assert found == Encoding(NONE, 0, "nothing is encoded, because all ranks are on one machine")


@few
@given(trees(most=24))
def test_nothing_is_encoded_where_links_are_faster_than_the_codec(topology: Topology) -> None:
    assert encoding(with_links(topology, 2 / CODEC.seconds / GBIT)).codec == NONE


@few
@given(sizes, st.integers(1, 4))
def test_bf16_at_500_mbit_per_second(ranks: list[int], cpus: int) -> None:
    topology = on_cpus(machines(ranks, [0.5] * len(ranks), latency=5e-5), cpus)
    found = encoding(topology)
    assert found.codec == CODEC.name and ENCODED_FROM <= found.least <= 1 << 20
    assert found.reason.startswith("sums and means of float32 go as bf16 from ")
    assert encoding(topology) == found


@few
@given(sizes, st.sampled_from([1, 5, 10, 25, 50, 100]))
def test_slower_links_are_encoded_wherever_faster_ones_are(ranks: list[int], gbits: float) -> None:
    faster, slower = (encoding(machines(ranks, [speed] * len(ranks), 400)) for speed in (gbits, gbits / 2))
    assert faster.codec == NONE or slower.codec == CODEC.name


@few
@given(trees(most=24))
def test_what_is_chosen_saves_time_by_the_model(topology: Topology) -> None:
    found = encoding(topology, "ring")
    if found.codec != NONE:
        network, lines = Network(topology), named("ring").lines(topology)
        chunk = chunk_bytes(network)
        for nbytes in (found.least, 16 * found.least):
            plain, coded = (cost(lines, network, nbytes, chunk, codec).seconds for codec in (None, CODEC))
            assert coded < 0.95 * plain


@pytest.mark.parametrize("file", NETWORKS, ids=[file.stem for file in NETWORKS])
@pytest.mark.parametrize("slower", [1, 16], ids=["usual CPUs", "slow CPUs"])
def test_auto_is_as_quick_as_the_better_of_on_and_off_by_the_model(file: Path, slower: int) -> None:
    topology = read(file)
    network, choices = Network(topology), choose("all_reduce", topology)
    codec = replace(CODEC, seconds=slower * CODEC.seconds)
    found = encoding(topology, codec=codec)
    for nbytes in (size for size in SIZES if size >= ENCODED_FROM):
        choice = serving(choices, nbytes)
        if choice.one_shot:
            continue  # it is not encoded
        off, on = (cost(choice.outline, network, nbytes, choice.chunk, one).seconds for one in (None, codec))
        auto = on if found.codec == codec.name and nbytes >= found.least else off
        assert auto <= 1.03 * min(on, off), nbytes


@pytest.mark.parametrize("file", NETWORKS, ids=[file.stem for file in NETWORKS])
def test_a_codec_of_its_own_for_each_link_could_save_little(file: Path) -> None:
    """No choice of links that are left out takes less time than one for which encoding costs nothing."""
    topology = read(file)
    network, choices, found = Network(topology), choose("all_reduce", topology), encoding(topology)
    for nbytes in (size for size in SIZES if found.codec != NONE and size >= found.least):
        choice = serving(choices, nbytes)
        for_all, for_nothing = (
            cost(choice.outline, network, nbytes, choice.chunk, one).seconds
            for one in (CODEC, replace(CODEC, seconds=0.0))
        )
        assert for_all <= 1.05 * for_nothing, nbytes


def test_broadcasts_of_parameters_are_exact_or_plain() -> None:
    slow = exact(machines((2, 3), (0.5, 0.5), latency=5e-5))
    assert slow.codec == "lossless" and ENCODED_FROM <= slow.least <= 4 << 20
    assert slow.reason.startswith("broadcasts of parameters go as lossless from ")
    assert exact(machines((2, 3), (25, 25))).codec == NONE
    assert exact(machines((5,), (1,))).reason == "nothing is encoded, because all ranks are on one machine"


def test_the_reason_gives_both_times() -> None:
    assert encoding(machines((1, 1), (400, 400), 800)).reason == (
        "nothing is encoded, because by the cost model an all-reduce of 1 GiB takes 21.5 ms as it is and 117 ms as "
        "bf16, which does not save 5 %"
    )
