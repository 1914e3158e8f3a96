"""Studies of policies: steps of training jobs on many ranks, and what a policy gains over Horovod's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from paceline.simulate.answer import WARM_UP
from paceline.simulate.compute import Compute
from paceline.simulate.job import Cores, Job, Step, Thread, Transfer, in_order, mean, steps
from paceline.simulate.models import BYTES, Gradient, model
from paceline.simulate.row import Row, row

STEPS = 8
"""Steps of each job that count."""
_CORES = "cores"
"""SCP: Horovod's own policy, with a core for its thread that nothing else uses (paper, section IV-C)."""
_BASELINE = "cycle"


@dataclass(frozen=True, slots=True)
class Case:
    """A job of a study. strong: whether all ranks share one batch."""

    network: str
    policy: str
    ranks: int
    strong: bool = False


Runs = Mapping[Case, Step]
"""The mean step of every job."""


def run(study: Mapping[str, Any], progress: Callable[[str], None], counted: int) -> list[Row]:
    """Simulate a study's jobs, `counted` steps of each, and return its figures."""
    runs: dict[Case, Step] = {}
    for case in dict.fromkeys(case for figure in study["figures"] for case in _needed(study, figure)):
        progress(f"{case.network}, {case.policy} on {case.ranks} ranks")
        runs[case] = mean(list(islice(steps(job(study, case)), WARM_UP, WARM_UP + counted)))
    return [row(figure, _MEASURES[figure["measure"]](study, runs, figure)) for figure in study["figures"]]


def job(study: Mapping[str, Any], case: Case) -> Job:
    """Return a job of a study."""
    known = _parameters(study)
    apart = case.policy == _CORES
    gradients = tuple(
        # Compiled by XLA, a step submits its gradients together, at its end (paper, section III-A).
        Gradient(each.name, each.elements * known["element_bytes"] // BYTES or 1, 1.0)
        for each in model(case.network).gradients
    )
    nbytes = sum(each.nbytes for each in gradients)
    return in_order(
        Job(
            machine_of=[rank // known["ranks_per_machine"] for rank in range(case.ranks)],
            gradients=gradients,
            policy=_BASELINE if apart else case.policy,
            cycle_seconds=known["cycle_seconds"],
            awaits=False,
            compute=Compute(seconds=_computation(study, case), delay=known["delay"] * _scheduled(study, case)),
            cores=Cores(
                cpus=known.get("cpus", 0),
                threads=known.get("threads", 0),
                seconds=_window(study, case),
                divided=apart,
            ),
            thread=Thread(
                oversleeps=0.0 if apart else known["oversleeps"],
                oversleep=known["oversleep"],
                ring=known["ring"],
                message=known["message"],
            ),
            transfer=Transfer(
                all_reduce=(
                    (0.0, _exchange(known, case.ranks, 0)),
                    (float(nbytes), _exchange(known, case.ranks, nbytes)),
                ),
                synchronise=known["synchronise"] + known["synchronise_doubling"] * math.log2(case.ranks),
                latency=known["latency"],
            ),
        )
    )


def _exchange(known: Mapping[str, Any], ranks: int, nbytes: int) -> float:
    """Seconds of an all-reduce."""
    return float(known["transfer_doubling"] * math.log2(ranks) + 2 * nbytes / known["machine_bytes_per_second"])


def _parameters(study: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**study["given"], **study["assumed"], **study["fitted"]}


def _computation(study: Mapping[str, Any], case: Case) -> float:
    """Seconds of a step's computation, a part of it in proportion to the batch."""
    known = _parameters(study)
    whole = _whole(study, case.network)
    if not case.strong:
        return whole
    fixed: float = known["compute_fixed"]
    return fixed + (whole - fixed) * _batch(study, case) / float(known["batch"])


def _whole(study: Mapping[str, Any], network: str) -> float:
    """Seconds of a step's computation with the usual batch.

    The paper gives the part of a network's step in which the input pipeline is active while nothing is exchanged
    (section V-B, "LIS window"). The pipeline takes as long for every network, so that the part says how long the step
    is: windows[network] = min(input, computation) / (computation + rest). Two computations may fit, one shorter and one
    longer than the pipeline; then it is the one nearer to that in proportion to the multiplications, which is also
    taken where the paper gives no window.
    """
    known = _parameters(study)
    usual: float = known["compute"]
    counted = usual * model(network).multiplications / model(known["model"]).multiplications
    share = known.get("windows", {}).get(network)
    if share is None or network == known["model"]:
        return counted
    rest, whole = _rest(study, network), _input(study)
    fits = [whole / share - rest]
    if (shorter := rest * share / (1 - share)) <= whole:
        fits.append(shorter)
    return float(min(fits, key=lambda each: abs(each - counted)))


def _input(study: Mapping[str, Any]) -> float:
    """Seconds of a step for which the input pipeline is active, from the window of the study's usual network."""
    known = _parameters(study)
    usual = known["model"]
    return float(known["windows"][usual] * (known["compute"] + _rest(study, usual))) if "windows" in known else 0.0


def _rest(study: Mapping[str, Any], network: str) -> float:
    """Seconds of a step on one machine beside the computation: the last rank's delay, half a cycle, the exchange."""
    known = _parameters(study)
    ranks = known["ranks_per_machine"]
    last = known["delay"] * sum(1 / rank for rank in range(1, ranks + 1))  # the mean of the largest of as many
    nbytes = sum(each.elements for each in model(network).gradients) * known["element_bytes"]
    return float(last + known["cycle_seconds"] / 2 + _exchange(known, ranks, nbytes))


def _window(study: Mapping[str, Any], case: Case) -> float:
    """Seconds of a step for which the input pipeline is active while the rank computes."""
    images = _batch(study, case) / float(_parameters(study)["batch"])
    return min(_input(study) * images, _computation(study, case))


def _scheduled(study: Mapping[str, Any], case: Case) -> float:
    """Return the part of its graph that a rank schedules while the input pipeline runs, relative to the usual network.

    Delays come up there alone (paper, section V-B), one node of the graph after the other (table I).
    """
    known = _parameters(study)
    if "nodes" not in known:
        return 1.0

    def scheduled(one: Case) -> float:
        return float(known["nodes"][one.network] * _window(study, one) / _computation(study, one))

    return scheduled(case) / scheduled(Case(known["model"], _BASELINE, known["ranks_per_machine"]))


def _batch(study: Mapping[str, Any], case: Case) -> float:
    """The images of a rank's step."""
    known = _parameters(study)
    return float(known["global_batch"] / case.ranks if case.strong else known["batch"])


def _needed(study: Mapping[str, Any], figure: Mapping[str, Any]) -> Iterator[Case]:
    """The jobs that a figure needs."""
    strong = figure.get("strong", False)
    everywhere = figure["measure"] in _EVERYWHERE
    policies = (_BASELINE, figure["policy"]) if figure["measure"].startswith("gain") else (figure["policy"],)
    for network in _networks(study, figure):
        for ranks in study["ranks"] if everywhere else [max(study["ranks"])]:
            yield from (Case(network, policy, ranks, strong) for policy in policies)


def _networks(study: Mapping[str, Any], figure: Mapping[str, Any]) -> Sequence[str]:
    found: Sequence[str] = figure.get("networks", [study["given"]["model"]])
    return found


def _most(study: Mapping[str, Any], runs: Runs, figure: Mapping[str, Any]) -> Step:
    return runs[Case(study["given"]["model"], figure["policy"], max(study["ranks"]))]


def _loss(study: Mapping[str, Any], runs: Runs, figure: Mapping[str, Any]) -> float:
    return 100 * (1 - float(_parameters(study)["compute"]) / _most(study, runs, figure).seconds)


def _all_reduce(study: Mapping[str, Any], runs: Runs, figure: Mapping[str, Any]) -> float:
    step = _most(study, runs, figure)
    return 100 * (1 - step.computation / step.seconds)


def _overhead(study: Mapping[str, Any], runs: Runs, figure: Mapping[str, Any]) -> float:
    """Until the rank has issued its last batch: what the paper calls Horovod's background thread overhead."""
    step = _most(study, runs, figure)
    return 100 * (step.delay + step.last_rank + step.negotiation) / step.seconds


def _gains(study: Mapping[str, Any], runs: Runs, figure: Mapping[str, Any]) -> list[float]:
    """Percent of throughput over `cycle`, for all networks and numbers of ranks."""
    strong = figure.get("strong", False)
    return [
        100
        * (
            runs[Case(network, _BASELINE, ranks, strong)].seconds
            / runs[Case(network, figure["policy"], ranks, strong)].seconds
            - 1
        )
        for network in _networks(study, figure)
        for ranks in study["ranks"]
    ]


def _gain_mean(study: Mapping[str, Any], runs: Runs, figure: Mapping[str, Any]) -> float:
    gains = _gains(study, runs, figure)
    return sum(gains) / len(gains)


def _fall(study: Mapping[str, Any], runs: Runs, figure: Mapping[str, Any]) -> float:
    """Percent by which the throughput on the most ranks is below the best at any number of ranks."""
    rates = [_images(study, runs, figure, ranks) for ranks in study["ranks"]]
    return 100 * (1 - rates[-1] / max(rates))


def _images(study: Mapping[str, Any], runs: Runs, figure: Mapping[str, Any], ranks: int) -> float:
    """Images a second."""
    case = Case(study["given"]["model"], figure["policy"], ranks, figure.get("strong", False))
    return ranks * _batch(study, case) / runs[case].seconds


def _rate(study: Mapping[str, Any], runs: Runs, figure: Mapping[str, Any]) -> float:
    return _images(study, runs, figure, max(study["ranks"]))


def _epoch(study: Mapping[str, Any], runs: Runs, figure: Mapping[str, Any]) -> float:
    return float(study["given"]["images"] / _rate(study, runs, figure))


def _training(study: Mapping[str, Any], runs: Runs, figure: Mapping[str, Any]) -> float:
    """Seconds of all epochs."""
    return float(study["given"]["epochs"] * _epoch(study, runs, figure))


_MEASURES: dict[str, Callable[[Mapping[str, Any], Runs, Mapping[str, Any]], float]] = {
    "loss": _loss,
    "all_reduce": _all_reduce,
    "overhead": _overhead,
    "gain": lambda study, runs, figure: max(_gains(study, runs, figure)),  # the paper says "up to"
    "gain_least": lambda study, runs, figure: min(_gains(study, runs, figure)),
    "gain_mean": _gain_mean,
    "fall": _fall,
    "rate": _rate,
    "epoch": _epoch,
    "training": _training,
}
_EVERYWHERE = ("gain", "gain_least", "gain_mean", "fall")
"""Measures that need all numbers of ranks, not only the largest."""
