"""`paceline demo` itself, short: real ranks, real training."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.cli import checks
from paceline.cli.demo import command as demo_command
from paceline.cli.usage import UsageError
from paceline.observe.trace import dump

DEADLINE_SECONDS = 240

pytestmark = pytest.mark.timeout(DEADLINE_SECONDS + 30)


def demo(*options: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    demo = [sys.executable, "-m", "paceline", "demo", *options]
    environment = {**os.environ, "COLUMNS": "100", **variables}
    return subprocess.run(demo, capture_output=True, text=True, timeout=DEADLINE_SECONDS, env=environment)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, traces: Path) -> "tuple[subprocess.CompletedProcess[str], dict]":
    found = tmp_path_factory.mktemp("demo") / "result.json"
    done = demo("-n", "2", "--epochs", "2", "--json", str(found), PACELINE_TRACE=str(traces))
    assert found.exists(), done.stdout + done.stderr
    return done, json.loads(found.read_text())


def test_it_trains_over_paceline_and_gloo(ran) -> None:
    _, result = ran
    assert (result["tested"]["name"], result["reference"]["name"]) == ("paceline", "gloo")
    assert (result["setup"]["ranks"], result["setup"]["batch"], result["setup"]["steps"]) == (2, 64, 22)
    assert result["setup"]["gradient_bytes"] == 4 * result["setup"]["weights"]


def test_every_gradient_went_through_the_engine(ran, traces: Path) -> None:
    _, result = ran
    dumps = dump.read(traces)
    assert [one.rank for one in dumps] == [0, 1]
    for one in dumps:
        sums = [event for event in one.events if (event.collective, event.op) == ("all_reduce", "SUM")]
        assert {event.state for event in sums} == {"done"}
        assert sum(event.bytes for event in sums) == 2 * 22 * result["setup"]["gradient_bytes"]


def test_weights_agree_with_gloo_and_with_one_process(ran) -> None:
    _, result = ran
    agreement, limit = result["agreement"], result["limits"]["weight_difference"]
    assert agreement["same_on_all_ranks"] is True
    assert 0 <= agreement["to_reference"] <= limit
    assert 0 < agreement["to_one_process"] <= limit  # zero would mean that nothing was trained in ranks


def test_figures_are_plausible(ran) -> None:
    _, result = ran
    assert result["without_ms"]["median"] > 0
    for side in (result["tested"], result["reference"]):
        step, total, transfer, exposed = (
            side["figures"][name]["median"] for name in ("step_ms", "total_ms", "transfer_ms", "exposed_ms")
        )
        assert 0 < transfer <= total < step
        assert 0 < exposed < step
        assert side["figures"]["images_per_second"]["median"] * step / 1e3 == pytest.approx(64)
        assert side["figures"]["buckets"] >= 1


def test_the_exit_code_is_the_verdict_and_the_verdict_is_printed(ran) -> None:
    done, result = ran
    assert done.returncode == (0 if result["passed"] else 1)
    assert ("Passed" if result["passed"] else "Failed") in done.stdout
    for words in ("images/s", "communication, exposed", "test accuracy", "fewer than 6 epochs were timed"):
        assert words in " ".join(done.stdout.split())
    assert "\x1b" not in done.stdout + done.stderr
    assert "\r" not in done.stdout + done.stderr


def test_a_run_that_breaks_gives_its_exit_code_and_no_result(tmp_path: Path) -> None:
    done = demo("-n", "1", "--epochs", "2", "--backend", "nonsense", "--json", str(tmp_path / "result.json"))
    assert done.returncode != 0
    assert "nonsense" in done.stderr
    assert not (tmp_path / "result.json").exists()


def test_it_says_what_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "find_spec", lambda module: None if module == "sklearn" else object())
    with pytest.raises(UsageError, match=r"^needs scikit-learn; pip install scikit-learn$"):
        demo_command.command()
