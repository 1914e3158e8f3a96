"""Studies that ship: a paper's figures beside what the simulator gives for them. Each study is one YAML file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from typing import Any

import yaml

from paceline.simulate.answer import WARM_UP
from paceline.simulate.job import Compute, Job, Step, Thread, Transfer, in_order, mean, steps
from paceline.simulate.models import BYTES, Gradient, model

STEPS = 8
"""Steps of each run that count."""
_CORES = "cores"
"""SCP: Horovod's own policy, with a core for its thread that nothing else uses (paper, section IV-C)."""

Runs = Mapping[tuple[str, int], Step]
"""The mean step of every policy at every number of ranks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A figure of the paper beside the simulated one."""

    figure: str
    quantity: str
    unit: str
    paper: float | None
    """None where the paper has no such figure."""
    simulated: float
    fitted: bool
    """Whether the model was fitted to this figure."""


def names() -> list[str]:
    """Return the names of all studies."""
    found = (each.name for each in (files("paceline.simulate") / "studies").iterdir())
    return sorted(name.removesuffix(".yaml") for name in found if name.endswith(".yaml"))


def load(name: str) -> dict[str, Any]:
    """Return a study's file. Raises ValueError, which names the studies that there are."""
    if name not in names():
        raise ValueError(f"there is no study {name!r:.80}; choose one of {', '.join(names())}")
    text = (files("paceline.simulate") / "studies" / f"{name}.yaml").read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def job(study: Mapping[str, Any], policy: str, ranks: int) -> Job:
    """Return the job of a study under a policy, or `cores`, on a number of ranks."""
    given, assumed, fitted = study["given"], study["assumed"], study["fitted"]
    apart = policy == _CORES
    gradients = tuple(
        # Compiled by XLA, a step hands in its gradients together, at its end (paper, section III-A).
        Gradient(each.name, each.elements * given["element_bytes"] // BYTES or 1, 1.0)
        for each in model(given["model"]).gradients
    )
    doublings = math.log2(ranks)
    nbytes = sum(each.nbytes for each in gradients)
    seconds = 2 * nbytes / given["machine_bytes_per_second"]
    return in_order(
        Job(
            machine_of=[rank // given["ranks_per_machine"] for rank in range(ranks)],
            gradients=gradients,
            policy="cycle" if apart else policy,
            cycle_seconds=given["cycle_seconds"],
            awaits=False,
            compute=Compute(
                seconds=assumed["compute"],
                delay=fitted["delay"],
                slowed_by_spinning=0.0 if apart else assumed["slowed_by_spinning"],
            ),
            thread=Thread(
                oversleeps=0.0 if apart else fitted["oversleeps"],
                oversleep=assumed["oversleep"],
                ring=assumed["ring"],
                message=assumed["message"],
            ),
            transfer=Transfer(
                all_reduce=(
                    (0.0, fitted["transfer_doubling"] * doublings),
                    (float(nbytes), fitted["transfer_doubling"] * doublings + seconds),
                ),
                synchronise=assumed["synchronise"] + assumed["synchronise_doubling"] * doublings,
                latency=assumed["latency"],
            ),
        )
    )


def run(study: Mapping[str, Any], progress: Callable[[str], None], counted: int = STEPS) -> Runs:
    """Simulate a study's jobs, `counted` steps of each. `progress` is told what is simulated."""
    found: dict[tuple[str, int], Step] = {}
    for ranks in study["ranks"]:
        for policy in study["policies"]:
            progress(f"{policy} on {ranks} ranks")
            found[policy, ranks] = mean(list(islice(steps(job(study, policy, ranks)), WARM_UP, WARM_UP + counted)))
    return found


def rows(study: Mapping[str, Any], runs: Runs) -> list[Row]:
    """Return the study's figures."""
    return [
        Row(
            figure=each["figure"],
            quantity=each["quantity"],
            unit=each["unit"],
            paper=each.get("paper"),
            simulated=100 * _MEASURES[each["measure"]](study, runs, each["policy"]),
            fitted=each.get("fitted", False),
        )
        for each in study["figures"]
    ]


def _most(study: Mapping[str, Any], runs: Runs, policy: str) -> Step:
    return runs[policy, max(study["ranks"])]


def _loss(study: Mapping[str, Any], runs: Runs, policy: str) -> float:
    return 1 - float(study["assumed"]["compute"]) / _most(study, runs, policy).seconds


def _all_reduce(study: Mapping[str, Any], runs: Runs, policy: str) -> float:
    step = _most(study, runs, policy)
    return 1 - step.computation / step.seconds


def _overhead(study: Mapping[str, Any], runs: Runs, policy: str) -> float:
    """Until the rank has issued its last batch: what the paper calls Horovod's background thread overhead."""
    step = _most(study, runs, policy)
    return (step.delay + step.last_rank + step.negotiation) / step.seconds


def _gain(study: Mapping[str, Any], runs: Runs, policy: str) -> float:
    """The largest gain in throughput over `cycle` at any number of ranks: the paper says "up to"."""
    return max(runs["cycle", ranks].seconds / runs[policy, ranks].seconds - 1 for ranks in study["ranks"])


_MEASURES: dict[str, Callable[[Mapping[str, Any], Runs, str], float]] = {
    "loss": _loss,
    "all_reduce": _all_reduce,
    "overhead": _overhead,
    "gain": _gain,
}
