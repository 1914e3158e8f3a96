"""Studies of all-reduce algorithms: how much time they save on some networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from paceline.simulate.answer import answer
from paceline.simulate.compute import Compute
from paceline.simulate.models import model
from paceline.simulate.network import transfer
from paceline.simulate.row import Row, row
from paceline.simulate.workload import Workload
from paceline.topology import Link, Node, Topology

_BASELINE = "ring"
_COUNTED, _REPLICAS = 4, 1


def run(study: Mapping[str, Any], progress: Callable[[str], None]) -> list[Row]:
    """Simulate a study's all-reduces and return its figures."""
    found = []
    for figure in study["figures"]:
        values = []
        for ranks in study["machines"][figure["machines"]]:
            progress(f"{figure['quantity']}: {'+'.join(map(str, ranks))}")
            values.append(_MEASURES[figure["measure"]](study, _network(study, ranks), figure["algorithm"]))
        found.append(row(figure, 100 * _SUMMARIES[figure["of"]](values)))
    return found


def _network(study: Mapping[str, Any], ranks: Sequence[int]) -> Topology:
    given = study["assumed"]
    uplink = Link(given["uplink"], given["uplink"], given["latency"])
    local = Link(given["local"], given["local"], given["local_latency"])
    machines = tuple(
        Node("machine", f"machine {m}", uplink, tuple(Node("rank", f"rank {m} {r}", local) for r in range(count)))
        for m, count in enumerate(ranks)
    )
    return Topology("+".join(map(str, ranks)), Node("switch", "switch", None, machines))


def _saving(study: Mapping[str, Any], topology: Topology, algorithm: str) -> float:
    """The fraction of the ring's time that the algorithm saves."""
    nbytes = study["given"]["bytes"]
    return 1 - transfer(topology, algorithm).seconds(nbytes) / transfer(topology, _BASELINE).seconds(nbytes)


def _speedup(study: Mapping[str, Any], topology: Topology, algorithm: str) -> float:
    """By how much faster a training by DDP gets, as a fraction."""
    network = model(study["given"]["model"])
    workload = Workload(
        gradients=network.gradients,
        policy="graph",
        compute=Compute(seconds=study["assumed"]["compute"]),
        fusion_bytes=study["assumed"]["bucket_bytes"],
    )
    ring, other = (
        answer(workload.on(topology, each), _COUNTED, _REPLICAS).step.seconds for each in (_BASELINE, algorithm)
    )
    return ring / other - 1


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


_MEASURES = {"saving": _saving, "speedup": _speedup}
_SUMMARIES: dict[str, Callable[[Sequence[float]], float]] = {"least": min, "most": max, "mean": _mean}
