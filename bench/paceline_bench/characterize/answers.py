"""The findings in the rows, as sentences, each with the numbers behind it.

The questions are the vectors of A. A. Awan et al., "Scalable Distributed DNN Training using TensorFlow and CUDA-Aware
MPI" (arXiv:1810.11112): how applications scale, what the batch size does to the scaling efficiency, what the collective
library does, and what the type and size of the network do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from statistics import median
from typing import Any

from paceline.formats.sizes import show_bytes
from paceline_bench.characterize.approaches import GRPC, GRPC_X, MPIS, NO_GRPC, NONE
from paceline_bench.characterize.row import Configuration, Row

GOOD = 0.9
"""The scaling efficiency that counts as good."""
_LIBRARIES = (*MPIS, "gloo", "paceline")
"""The approaches that differ in nothing but the library that sums DDP's buckets."""


def answers(rows: Sequence[Row]) -> list[tuple[str, list[str]]]:
    """Return the questions that the rows can answer, each with its sentences."""
    trained = [row for row in rows if row.kind != NONE and not row.wrong]
    found = {
        "Which approach is ahead, and how well does it scale?": [
            *_kinds(trained),
            *_ratios(trained),
            *_scaling(trained),
        ],
        "What does the batch size do?": _batches(trained),
        "What does the collective library do?": _libraries(trained),
        "What do the type and size of the network do?": _models(trained),
        "What does the connection between machines do?": _networks(trained),
        "Where does the time go?": _parts(trained),
    }
    return [(question, sentences) for question, sentences in found.items() if sentences]


def _kinds(rows: Sequence[Row]) -> list[str]:
    """Say in how many configurations the best approach without gRPC is ahead of the best with it."""
    pairs = []
    for _, some in _configurations(rows):
        with_grpc, without = _best(some, (GRPC, GRPC_X)), _best(some, (NO_GRPC,))
        if with_grpc and without:
            pairs.append((with_grpc, without))
    if not pairs:
        return []
    ahead = [without.efficiency / with_grpc.efficiency for with_grpc, without in pairs]
    wins = sum(one > 1 for one in ahead)
    return [
        f"Approaches without gRPC are ahead of those with it in {wins} of {len(pairs)} configurations: the best of the"
        f" former has {min(ahead):.2f}× to {max(ahead):.2f}× the efficiency of the best of the latter."
    ]


def _ratios(rows: Sequence[Row]) -> list[str]:
    """Compare the throughput of Paceline with that of gRPC, in the same framework."""
    sentences = []
    for model, some in _by(rows, "model"):
        ratios = []
        for _, few in _configurations(some):
            rates = {row.approach: row.images_per_s for row in few}
            if "grpc" in rates and "paceline-tensorflow" in rates:
                ratios.append(rates["paceline-tensorflow"] / rates["grpc"])
        if ratios:
            where = "in its only configuration" if len(ratios) == 1 else f"in {len(ratios)} configurations"
            spread = f"{ratios[0]:.2f}×" if len(ratios) == 1 else f"{min(ratios):.2f}× to {max(ratios):.2f}×"
            sentences.append(
                f"With {model}, TensorFlow trains {spread} as many images a second over Paceline as with its parameter"
                f" servers over gRPC, {where}."
            )
    return sentences


def _scaling(rows: Sequence[Row]) -> list[str]:
    """Say where the best approach scales well, and where not, what the network allows."""
    sentences = []
    for asked, some in _configurations(rows):
        best = max(some, key=lambda row: row.efficiency)
        text = f"{_at(asked)}: {best.approach} is the most efficient, with {best.efficiency:.0%}"
        if best.efficiency < GOOD:
            text += f"; {_limit(best)}"
        sentences.append(text + ".")
    return sentences


def _limit(row: Row) -> str:
    if row.bound_ms is None:
        return f"{row.transfer_ms:.0f} ms of its step of {row.step_ms:.0f} ms are transfer that no computation hides"
    exchange = f"the network needs at least {row.bound_ms:.0f} ms to sum {show_bytes(row.gradient_bytes)} of gradients"
    allowed = min(1.0, row.compute_ms / row.bound_ms)
    if allowed < GOOD:
        return f"{exchange} and computing takes {row.compute_ms:.0f} ms, so that more than {allowed:.0%} is impossible"
    return f"{exchange}, and computing, which could hide that, takes {row.compute_ms:.0f} ms"


def _batches(rows: Sequence[Row]) -> list[str]:
    """Say for each approach how its efficiency changes from the smallest to the largest batch."""
    sentences = []
    for (network, ranks, model, size), some in _by(rows, "network", "ranks", "model", "image_size"):
        low, high = min(row.batch for row in some), max(row.batch for row in some)
        if low == high:
            continue
        changes = []
        for approach, few in _by(some, "approach"):
            ends = {row.batch: row.efficiency for row in few}
            if low in ends and high in ends:
                changes.append(f"{approach} from {ends[low]:.0%} to {ends[high]:.0%}")
        if changes:
            sentences.append(
                f"{_with(size, ranks, model=model, network=network)}, from {low} to {high} images a rank the efficiency"
                f" goes for {_listed(changes)}."
            )
    return sentences


def _libraries(rows: Sequence[Row]) -> list[str]:
    """Compare the libraries that sum the same buckets of DDP."""
    sentences = []
    for asked, some in _configurations(row for row in rows if row.approach in _LIBRARIES):
        if len(some) < 2:
            continue
        order = sorted(some, key=lambda row: -row.efficiency)
        first, last = order[0], order[-1]
        text = f"{_at(asked)}, the library that sums DDP's buckets decides over "
        text += f"{first.images_per_s / last.images_per_s:.2f}×: "
        sentences.append(text + _listed([f"{row.approach} {row.efficiency:.0%}" for row in order]) + ".")
    return sentences


def _models(rows: Sequence[Row]) -> list[str]:
    """Say how much is exchanged for each model per second of computation, and what the efficiencies are."""
    sentences = []
    for (network, ranks, size, batch), some in _by(rows, "network", "ranks", "image_size", "batch"):
        by_model = _by(some, "model")
        if len(by_model) < 2:
            continue
        told = []
        for model, few in by_model:
            typical = median(row.efficiency for row in few)
            density = few[0].gradient_bytes / median(row.compute_ms for row in few) / 1e3
            told.append(
                f"{model} exchanges {density:.0f} MB for each second that a rank computes, and its approaches have a"
                f" median efficiency of {typical:.0%}"
            )
        sentences.append(f"{_with(size, ranks, batch=batch, network=network)}, {_listed(told)}.")
    return sentences


def _networks(rows: Sequence[Row]) -> list[str]:
    """Compare the same configuration on several networks."""
    sentences = []
    for (model, ranks, size, batch), some in _by(rows, "model", "ranks", "image_size", "batch"):
        if len({row.network for row in some}) < 2:
            continue
        told = []
        for approach, few in _by(some, "approach"):
            if len(few) > 1:
                told.append(f"{approach} has " + _listed([f"{row.efficiency:.0%} on {row.network}" for row in few]))
        if told:
            sentences.append(f"{_with(size, ranks, model=model, batch=batch)}, {_listed(told)}.")
    return sentences


def _parts(rows: Sequence[Row]) -> list[str]:
    """Say for each approach which parts of a step are not computation, over all configurations."""
    sentences = []
    for approach, some in _by(rows, "approach"):
        whole = sum(row.step_ms for row in some)
        names = ("waiting", "negotiation", "copies", "transfer")
        parts = {name: sum(getattr(row, f"{name}_ms") or 0.0 for row in some) / whole for name in names}
        known = [f"{share:.0%} {name}" for name, share in parts.items() if share >= 0.005]
        hidden = f": {_listed(known)}" if known else ""
        sentences.append(
            f"With {approach}, {sum(parts.values()):.0%} of a step is exchange that no computation hides{hidden}."
        )
    return sentences


def _best(rows: Sequence[Row], kinds: tuple[str, ...]) -> Row | None:
    return max((row for row in rows if row.kind in kinds), key=lambda row: row.efficiency, default=None)


def _configurations(rows: Iterable[Row]) -> list[tuple[Configuration, list[Row]]]:
    found = sorted(rows, key=lambda row: row.configuration)
    return [(key, list(some)) for key, some in groupby(found, key=lambda row: row.configuration)]


def _by(rows: Iterable[Row], *names: str) -> list[tuple[Any, list[Row]]]:
    found: dict[Any, list[Row]] = {}
    for row in rows:
        values = tuple(getattr(row, name) for name in names)
        found.setdefault(values if len(names) > 1 else values[0], []).append(row)
    return list(found.items())


def _at(asked: Configuration) -> str:
    return _with(asked.image_size, asked.ranks, model=asked.model, batch=asked.batch, network=asked.network)


def _with(size: int, ranks: int, *, model: str = "", batch: int = 0, network: str = "") -> str:
    """Begin a sentence with what its rows have in common. size: of the images, in pixels. batch: images a rank."""
    given = [word for word in (model, f"{batch} images a rank" if batch else "") if word]
    return f"With {', '.join(given)} at {size} px on {ranks} ranks" + (f" ({network})" if network else "")


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
