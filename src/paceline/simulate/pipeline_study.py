"""Studies of models in partitions: how much faster many replicas are than one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from paceline.simulate.answer import Answer, answer
from paceline.simulate.compute import Compute
from paceline.simulate.models import Gradient
from paceline.simulate.network import uniform
from paceline.simulate.pipeline import pipelined
from paceline.simulate.row import Row, row
from paceline.simulate.workload import IN_ORDER, Workload
from paceline.topology import Link

_RUNS = 5


def run(study: Mapping[str, Any], progress: Callable[[str], None], counted: int) -> list[Row]:
    """Simulate a study's trainings, `counted` steps of each run, and return its figures."""
    answers: dict[int, Answer] = {}
    for nodes in dict.fromkeys(figure["nodes"] for figure in study["figures"]):
        progress(f"{nodes} nodes")
        answers[nodes] = _answer(study, nodes, counted)
    return [row(figure, figure["nodes"] * answers[figure["nodes"]].efficiency) for figure in study["figures"]]


def _answer(study: Mapping[str, Any], nodes: int, counted: int) -> Answer:
    known = {**study["given"], **study["assumed"], **study["fitted"]}
    partitions, microbatches = known["partitions"], known["microbatches"]
    seconds = known["compute"] * partitions * microbatches / (microbatches + partitions - 1)
    one_rank = Workload(
        # A partition exchanges its gradients together (section 5.2 of the paper), when its last backward is over.
        gradients=tuple(
            Gradient(f"partition {number}", known["parameters"] // partitions, 1 - number / partitions * 2 / 3)
            for number in range(partitions)
        ),
        policy=IN_ORDER,
        compute=Compute(seconds=seconds, delay=known["delay"] * seconds),
    )
    speed = known["machine_bytes_per_second"]
    nodes_alone = uniform(nodes, 1, Link(speed, speed, known["latency"]))  # a rank for each replica
    return answer(pipelined(one_rank, partitions, microbatches).on(nodes_alone), counted, _RUNS)
