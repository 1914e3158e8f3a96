"""The times at which the replicas' gradients are their mean: bucket by bucket, behind the backward that makes them.

The time of a bucket is that of the cost model's all-reduce among the ranks which have the same partition. Exchanges of
several partitions that cross the same machine's link take turns, each bucket alone at the link's whole speed. Within a
machine the CPUs that compute also reduce, so that an exchange only begins when the rank's backwards are over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

from paceline.plan.choice import serving
from paceline.plan.choose import choose
from paceline.plan.codecs import ENCODED_FROM, Codec
from paceline.plan.cost import cost
from paceline.plan.network import Network
from paceline.topology.discover import Placement
from paceline.topology.prune import prune
from paceline.torch.bucket import BUCKET_BYTES
from paceline.torch.partitioned.cut import Chain, Weight
from paceline.torch.partitioned.predicted.shape import Shape
from paceline.torch.partitioned.predicted.timeline import Timeline


class Exchange:
    """The all-reduce among some ranks of a job: its seconds, and the machines whose links it crosses.

    codec: how gradients are encoded there.
    """

    def __init__(self, placement: Placement, ranks: Sequence[int], codec: Codec | None = None) -> None:
        self._codec = codec
        places = {place for place, rank in enumerate(placement.ranks) if rank in set(ranks)}
        topology = prune(placement.topology, places)
        self.machines = frozenset(node.name for node, _ in topology.machines())
        self._choices = choose("all_reduce", topology)
        self._network = Network(topology)
        self.seconds: Callable[[int], float] = cache(self._seconds)

    def _seconds(self, nbytes: int) -> float:
        if self._network.world == 1 or not nbytes:
            return 0.0
        choice = serving(self._choices, nbytes)
        codec = self._codec if nbytes >= ENCODED_FROM and len(self.machines) > 1 else None
        return cost(choice.outline, self._network, nbytes, choice.chunk or None, codec).seconds


def exchanged(
    chain: Chain, ends: Sequence[int], shape: Shape, placement: Placement, steps: Timeline
) -> tuple[float, ...]:
    """Return when the gradients of each partition are whole, in seconds since the step began."""
    places, rank_of, codec = shape.layout, shape.schedule.rank_of, shape.codecs.of_gradients
    groups = [
        Exchange(placement, [places.rank(replica, partition) for replica in range(places.replicas)], codec)
        for partition in range(places.partitions)
    ]
    over = [max(span.end for span in spans) for spans in steps.spans]
    shared = _shared(chain, ends, rank_of)
    ready: list[tuple[float, int, int]] = []
    for stage, partition in enumerate(rank_of):
        for moment, nbytes in _buckets(chain, ends, stage, shared, steps):
            local = len(groups[partition].machines) == 1
            ready.append((over[partition] if local else moment, partition, nbytes))
    free: dict[object, float] = {}
    for moment, partition, nbytes in sorted(ready):
        group = groups[partition]
        used: list[object] = [partition, *(group.machines if len(group.machines) > 1 else ())]
        end = max([moment, *(free.get(each, 0.0) for each in used)]) + group.seconds(nbytes)
        free.update(dict.fromkeys(used, end))
    ended = [max(free.get(partition, 0.0), over[partition]) for partition in range(places.partitions)]
    for partitions, nbytes in sorted(_tied(shared, chain).items(), key=lambda item: sorted(item[0])):
        members = [places.rank(replica, one) for replica in range(places.replicas) for one in partitions]
        end = max(ended[one] for one in partitions) + Exchange(placement, members, codec).seconds(nbytes)
        for one in partitions:
            ended[one] = end
    return tuple(ended)


def _shared(chain: Chain, ends: Sequence[int], rank_of: Sequence[int]) -> dict[int, frozenset[int]]:
    """The partitions that need a weight which several stages need, by its identity."""
    stages: dict[int, set[int]] = {}
    begin = 0
    for stage, end in enumerate(ends):
        for call in range(begin, end):
            for weight in chain.weights[call]:
                stages.setdefault(weight.identity, set()).add(stage)
        begin = end
    return {
        identity: frozenset(rank_of[stage] for stage in found) for identity, found in stages.items() if len(found) > 1
    }


def _tied(shared: dict[int, frozenset[int]], chain: Chain) -> dict[frozenset[int], int]:
    weights: dict[int, Weight] = {one.identity: one for call in chain.weights for one in call}
    found: dict[frozenset[int], int] = {}
    for identity, partitions in shared.items():
        if weights[identity].trained:
            found[partitions] = found.get(partitions, 0) + round(weights[identity].nbytes)
    return found


def _buckets(
    chain: Chain, ends: Sequence[int], stage: int, shared: dict[int, frozenset[int]], steps: Timeline
) -> Iterator[tuple[float, int]]:
    """Yield the time at which the last backward of a stage has filled each bucket, and the bucket's bytes."""
    span = steps.last(stage)
    begin = ends[stage - 1] if stage else 0
    calls = range(ends[stage] - 1, begin - 1, -1)
    whole = sum(chain.backward[call] for call in calls)
    done, held = 0.0, 0.0
    seen = set(shared)
    for call in calls:
        done += chain.backward[call]
        for weight in chain.weights[call]:
            if weight.trained and weight.identity not in seen:
                seen.add(weight.identity)
                held += weight.nbytes
        if held >= BUCKET_BYTES:
            share = done / whole if whole and span.action.kind == "B" else 1.0
            yield span.begin + share * (span.end - span.begin), round(held)
            held = 0.0
    if held:
        yield span.end, round(held)
