"""Print how far `partitions="auto"` is from the best shape, for some models on some networks.

`paceline bench hybrid` trains in the automatic shape and in a few others in turn, until all shapes have had their turn
beside it. A shape's row says how many times as long as the automatic one's its step is, by the medians of that run, so
that runs need not be equally quiet. The model's row has the best of them: below 0.95, the choice is more than 5 % off.

Needs a quiet machine, and root for networks, which are topology files.

    python scripts/hybrid_choice.py --models ResNet-110,VGG16,transformer --json choice.json
    python scripts/hybrid_choice.py --models ResNet-110,VGG16,transformer --network docs/topologies/2+2-gigabit.yaml
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
from paceline.bench.hybrid.measure import AUTO, MODELS, shapes

TOGETHER = 4
"""Shapes that are measured beside the automatic one: each has processes of its own."""


def main() -> int:
    """Measure; return 1 where a choice is more than 5 % off."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS[:3]))
    parser.add_argument("--network", type=Path, help="a topology file; without one, this machine")
    parser.add_argument("--ranks", type=int, default=2, help="without a network")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
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
    for first in range(0, len(every), TOGETHER):
        rows = bench(model, [AUTO, *every[first : first + TOGETHER]], ranks, asked)
        auto = next(row for row in rows if row["system"] == AUTO)
        for row in rows:
            if row["system"] == "hybrid":
                found = {"model": model, "ranks": ranks, "network": str(asked.network or "")}
                found |= {"auto": shape(auto), "shape": shape(row), "ratio": row["step_ms"] / auto["step_ms"]}
                found["predicted"] = row["predicted_ms"] / auto["predicted_ms"]
                yield found
                print(f"  {shape(row)}: {found['ratio']:.3f} (predicted {found['predicted']:.3f})", flush=True)


def shape(row: dict[str, Any]) -> str:
    """Return partitions x replicas x microbatches."""
    return "x".join(str(row[name]) for name in ("partitions", "replicas", "microbatches"))


def bench(model: str, some: list[str], ranks: int, asked: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the benchmark's rows."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, "-m", "paceline", "bench", "hybrid", "--models", model, "--shapes", ",".join(some)]
        command += ["--batch", str(asked.batch), "--rounds", str(asked.rounds), "--json", file.name]
        if asked.network:
            command = [sys.executable, "-m", "paceline", "lab", str(asked.network), "--", *command]
        else:
            command += ["-n", str(ranks)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        rows: list[dict[str, Any]] = json.loads(Path(file.name).read_text())
    return rows


if __name__ == "__main__":
    sys.exit(main())
