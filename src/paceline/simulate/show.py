"""The answers as sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from paceline.simulate.answer import Answer
from paceline.simulate.bottleneck import bottleneck
from paceline.simulate.scenario import Scenario
from paceline.simulate.workload import IN_ORDER

_PAYS = 1.5
"""Times as much throughput that twice as many ranks must give, or the curve has bent."""
_NETWORK = "transfer"
_TOLD = 0.05
"""The least share of a step that the network takes for it to be told beside something else that takes more."""
_BINDS = {
    "computation": "the computation itself",
    "delay": "the delay of ranks",
    "last_rank": "waiting for the last rank",
    "negotiation": "agreeing on the last batch (the policy)",
    "peers": "waiting for other ranks to issue the last batch",
    "after": "what comes after the exchange",
}


def binds(answer: Answer, scenario: Scenario) -> str:
    """Return a sentence that says what takes most of the step."""
    part, share = max(answer.shares.items(), key=lambda item: item[1])
    what = _BINDS.get(part) or bottleneck(scenario)
    where = f" ({answer.network})" if answer.network else ""
    found = f"On {answer.ranks} ranks{where} {what} takes most of the step, {share:.0%} of it."
    if part != _NETWORK and (exposed := answer.shares[_NETWORK]) >= _TOLD:
        found += f" After the computation, {exposed:.0%} are left for {bottleneck(scenario).rstrip(',')}."
    return found


def knee(answers: Sequence[Answer]) -> str | None:
    """Return a sentence that says where more ranks stop to pay; None for fewer than two numbers of ranks.

    answers: those of one policy and algorithm, by rising ranks.
    """
    if len(answers) < 2:
        return None
    the, there = (
        ("The", "There")
        if answers[0].policy == IN_ORDER
        else (f"With {answers[0].policy} {w}" for w in ("the", "there"))
    )
    for before, after in pairwise(answers):
        doublings = math.log2(after.ranks / before.ranks)
        if doublings > 0 and after.throughput < before.throughput * _PAYS**doublings:
            gained = after.throughput / before.throughput - 1
            said = f"{gained:+.0%} batches/s" if gained > 0 else f"{-gained:.0%} fewer batches/s"
            return f"{the} knee is at {before.ranks} ranks; {after.ranks} give {said}."
    return f"{there} is no knee up to {answers[-1].ranks} ranks."
