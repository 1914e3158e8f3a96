"""Print what `codec="auto"` takes beside no codec and beside bf16, measured in turn, and what the cost model says.

Each network becomes a lab, so this needs root; `one machine` has two ranks and no lab. "to better" is the median time
of `auto` over the smaller of the other two; the last line tells the worst. "model" is the predicted time of bf16 over
that of no codec, beside the measured ratio; it predicts with a usual machine's rates (`paceline.calibration.plan`).

    python studies/auto_codec.py docs/topologies/*.yaml
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from paceline import topology
from paceline.formats.sizes import show_bytes
from paceline.plan.auto import CODEC
from paceline.plan.choice import serving
from paceline.plan.choose import choose
from paceline.plan.cost import cost
from paceline.settings.names import AUTO, NONE
from paceline.topology import Topology

_SIZES = ("-b", "64K", "-e", "32M", "-f", "8")
_ON = CODEC.name


class Found(NamedTuple):
    """Seconds of an all-reduce of `nbytes` bytes, by codec; predicted: of bf16 over those of no codec, by the model."""

    place: str
    nbytes: int
    seconds: dict[str, float]
    predicted: float

    @property
    def to_better(self) -> float:
        """The time of `auto` over that of the better of bf16 and no codec."""
        return self.seconds[AUTO] / min(self.seconds[NONE], self.seconds[_ON])


def main(paths: list[Path]) -> None:
    print(f"{'network':24} {'bytes':>8} {NONE:>10} {_ON:>10} {AUTO:>10} {'to better':>9} {'ratio':>6} {'model':>6}")
    found = []
    for path in (None, *paths):
        for one in _measured(path):
            found.append(one)
            times = " ".join(f"{1e3 * one.seconds[codec]:7.2f} ms" for codec in (NONE, _ON, AUTO))
            ratio = one.seconds[_ON] / one.seconds[NONE]
            print(
                f"{one.place:24} {show_bytes(one.nbytes):>8} {times} {one.to_better:9.3f} {ratio:6.3f} "
                f"{one.predicted:6.3f}",
                flush=True,
            )
    worst = max(found, key=lambda one: one.to_better)
    print(f"worst: {worst.to_better:.3f} times the better one, {show_bytes(worst.nbytes)} on {worst.place}")


def _measured(path: Path | None) -> Iterator[Found]:
    """Measure in a lab of this file; None stands for one machine. Raises CalledProcessError if the benchmark fails."""
    lab = [] if path is None else ["lab", str(path), "--", sys.executable, "-m", "paceline"]
    ranks = ["--ranks", "2"] if path is None else []
    network = None if path is None else topology.read(path)
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        bench = ["bench", "all_reduce", *ranks, *_SIZES, "--paths", "engine", "--codecs", f"{NONE},{_ON},{AUTO}"]
        command = [sys.executable, "-m", "paceline", *lab, *bench, "--json", file.name]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        rows = json.load(file)
    for nbytes in sorted({row["bytes"] for row in rows}):
        seconds = {row["codec"]: row["time_us"] / 1e6 for row in rows if row["bytes"] == nbytes}
        yield Found(
            path.stem if path else "one machine",
            nbytes,
            seconds,
            1.0 if network is None else predicted(network, nbytes),
        )


def predicted(network: Topology, nbytes: int) -> float:
    """Return the time of an all-reduce of so many bytes as bf16 over that without a codec, by the cost model."""
    choice = serving(choose("all_reduce", network), nbytes)
    if choice.one_shot:
        return 1.0  # it is not encoded
    off, on = (cost(choice.outline, network, nbytes, choice.chunk, codec).seconds for codec in (None, CODEC))
    return on / off


if __name__ == "__main__":
    main([Path(word) for word in sys.argv[1:]])
