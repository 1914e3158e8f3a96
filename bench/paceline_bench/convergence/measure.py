"""The convergence of small trainings where gradients or parameters are encoded between machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from paceline.settings.names import NONE
from paceline_bench.session import Session, SessionFailed
from paceline_bench.systems import System
from paceline_bench.table import column

TRAININGS = ("digits", "text", "tabular")
"""A convolutional network on handwritten digits, a transformer that predicts the next character of a manual, and a
perceptron on measured tumours: those of `ranks/real_data.py`."""
NUDGED = "nudged"
"""In place of a codec: no codec, from parameters that are one float32 away from the seed's. It shows how far the least
rounding takes a training, whatever it comes from."""
CODECS = (NONE, NUDGED, "bf16", "int8", "int4", "three_in_one")
"""The first is what the others are compared with; `ranks/convergence.py` says which of them encodes parameters."""
MACHINES = 2


@dataclass(frozen=True, kw_only=True)
class Row:
    """One training from one seed with one codec. The fields are the keys in JSON.

    final_loss: the mean cross-entropy over all samples for training after the last step. accuracy: the share, 0 to 1,
    of the samples for the test that the network recognises; with "text" that of their characters. to_none: this loss
    over that of the same seed without a codec, less 1.
    """

    training: str = field(metadata=column("training"))
    codec: str = field(metadata=column("codec"))
    seed: int
    final_loss: float = field(metadata=column("loss", "{:.5f}"))
    accuracy: float = field(metadata=column("accuracy", "{:.2%}"))
    to_none: float = field(metadata=column("to none", "{:+.2%}"))


def system() -> System:
    """Return the ranks that train, which take this machine for two."""
    return System("paceline", "torch", ".convergence:Convergence", machines=MACHINES)


def measure(session: Session, trainings: Sequence[str], seeds: int, progress: Callable[[str], None]) -> Iterator[Row]:
    """Train with each codec from each of so many seeds, and yield each training when it is over.

    Raises SessionFailed, also if ranks end with different parameters.
    """
    for training in trainings:
        for seed in range(seeds):
            plain = 0.0
            for codec in CODECS:
                progress(f"{training}, seed {seed}, {codec}")
                nudged = codec == NUDGED
                used = NONE if nudged else codec
                replies = session.ask(do="train", training=training, codec=used, seed=seed, nudged=nudged)
                if len({reply["checksum"] for reply in replies}) > 1:
                    raise SessionFailed(f"{training} with {codec}: ranks ended with different parameters")
                loss = float(replies[0]["final_loss"])
                plain = plain or loss
                yield Row(
                    training=training,
                    codec=codec,
                    seed=seed,
                    final_loss=round(loss, 9),
                    accuracy=round(replies[0]["accuracy"], 5),
                    to_none=round(loss / plain - 1, 8),
                )
