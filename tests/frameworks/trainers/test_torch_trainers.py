"""Lightning, Accelerate and Hugging Face's Trainer train over Paceline, and a rank that dies is named to the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs import PROGRAMS
from launched import run_example
from rank_loss import lose_one


@pytest.mark.parametrize(
    "name",
    ["train_lightning.py", "train_accelerate.py", pytest.param("train_transformers.py", marks=pytest.mark.smoke)],
)
def test_trains_over_paceline(name: str) -> None:
    lines = run_example(name)
    losses = [float(line.rpartition(" ")[2]) for line in lines if line.startswith("epoch")]
    assert len(losses) == 4
    assert losses[-1] < losses[0] / 4
    assert lines[-1] == "2 ranks over paceline"


@pytest.mark.parametrize("trainer", ["lightning", pytest.param("accelerate", marks=pytest.mark.smoke)])
def test_rank_that_dies_is_named(trainer: str, tmp_path: Path) -> None:
    lose_one(2, PROGRAMS / "trainer_losing_a_rank.py", "kill", trainer, folder=tmp_path, timeout=30)


def test_what_accelerate_refuses_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The how-to gives this as the reason to make the process group first; once it passes, the page can be shorter."""
    from accelerate import Accelerator, InitProcessGroupKwargs
    from accelerate.state import AcceleratorState, PartialState

    for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    try:
        with pytest.raises(ValueError, match="Your assigned backend paceline is not available, please use gloo"):
            Accelerator(cpu=True, kwargs_handlers=[InitProcessGroupKwargs(backend="paceline")])
    finally:
        AcceleratorState._reset_state()
        PartialState._reset_state()
