"""Print how far `partitions="auto"` is from the best shape, for some models on some networks.

`paceline bench hybrid` trains in the automatic shape and in others in turn. First every shape has a few turns, some of
them beside the automatic one at a time; those that come near it then have more turns beside it. A shape's row says how
many times as long as the automatic one's its step is, by the medians of that run, so that runs need not be equally
quiet. The model's row has the best of them: below 0.95, the choice is more than 5 % off. Nothing else is trained: each
rank may use `MEMORY`, which leaves out one rank alone and DDP.

Needs a quiet machine, and root for networks, which are topology files.

    python studies/hybrid_choice.py --models ResNet-110,VGG16,transformer --json choice.json
    python studies/hybrid_choice.py --models ResNet-110,VGG16,transformer --network docs/topologies/2+2-gigabit.yaml
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paceline import topology
from paceline_bench.hybrid.measure import AUTO, MODELS, shapes

TOGETHER = 4
"""Shapes that are measured beside the automatic one: each has processes of its own."""
SCREENED = {"rounds": 3, "steps": 1}
"""Turns in which every shape is tried, and steps of each."""
NEAR = 1.15
"""A shape whose step took longer than so many times the automatic one's is not tried again."""
MEMORY = "1000G"


def main() -> int:
    """Measure; return 1 where a choice is more than 5 % off."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS[:3]))
    parser.add_argument("--network", type=Path, help="a topology file; without one, this machine")
    parser.add_argument("--ranks", type=int, default=2, help="without a network")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7, help="of the shapes that come near")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    ranks = topology.read(asked.network).world if asked.network else asked.ranks
    rows: list[dict[str, Any]] = []
    worst = 1.0
    for model in asked.models.split(","):
        found = list(ratios(model, ranks, asked))
        rows += found
        best = min(found, key=lambda one: one["ratio"])
        worst = min(worst, best["ratio"])
        print(
            f"{model}, {ranks} ranks: auto is {found[0]['auto']}; best {best['shape']}, {best['ratio']:.3f} of its step"
        )
        if asked.json:
            asked.json.write_text(json.dumps(rows, indent=1) + "\n")
    return int(worst < 0.95)


def ratios(model: str, ranks: int, asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a row for each shape: how many times as long as the automatic one's its step is, measured and predicted."""
    every = shapes("all", ranks, asked.batch)
    rows: dict[str, dict[str, Any]] = {}
    for first in range(0, len(every), TOGETHER):
        rows |= beside(model, every[first : first + TOGETHER], ranks, asked, SCREENED)
    near = sorted((name for name, row in rows.items() if row["ratio"] < NEAR), key=lambda name: rows[name]["ratio"])
    rows |= beside(model, near[:TOGETHER], ranks, asked, {"rounds": asked.rounds, "steps": 2})
    yield from rows.values()


def beside(
    model: str, some: list[str], ranks: int, asked: argparse.Namespace, turns: dict[str, int]
) -> dict[str, dict[str, Any]]:
    """Return the rows of some shapes that are trained beside the automatic one, by their names."""
    rows = bench(model, [AUTO, *some], ranks, asked, turns)
    auto = next(row for row in rows if row["system"] == AUTO)
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["system"] == "hybrid":
            one = {"model": model, "ranks": ranks, "network": str(asked.network or ""), **turns}
            one |= {"auto": shape(auto), "shape": shape(row), "ratio": row["step_ms"] / auto["step_ms"]}
            one["predicted"] = row["predicted_ms"] / auto["predicted_ms"]
            found[one["shape"]] = one
            print(f"  {one['shape']}: {one['ratio']:.3f} (predicted {one['predicted']:.3f})", flush=True)
    return found


def shape(row: dict[str, Any]) -> str:
    """Return partitions x replicas x microbatches."""
    return "x".join(str(row[name]) for name in ("partitions", "replicas", "microbatches"))


def bench(
    model: str, some: list[str], ranks: int, asked: argparse.Namespace, turns: dict[str, int]
) -> list[dict[str, Any]]:
    """Return the benchmark's rows."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, "-m", "paceline", "bench", "hybrid", "--models", model, "--shapes", ",".join(some)]
        command += ["--batch", str(asked.batch), "--memory", MEMORY, "--json", file.name]
        command += [word for name, number in turns.items() for word in (f"--{name}", str(number))]
        if asked.network:
            command = [sys.executable, "-m", "paceline", "lab", str(asked.network), "--", *command]
        else:
            command += ["-n", str(ranks)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        rows: list[dict[str, Any]] = json.loads(Path(file.name).read_text())
    return rows


if __name__ == "__main__":
    sys.exit(main())
