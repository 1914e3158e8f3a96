"""The doctor: it finds what is there, gives reasons, and survives what is broken."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from launched import environment
from rich.console import Console

from paceline.cli.doctor import memory, software, survey
from paceline.cli.doctor.finding import Environment, Finding
from paceline.cli.doctor.report import show, to_json
from paceline.settings.settings import Settings
from paceline.version import NEWEST_TORCH, OLDEST_TORCH

EXPECTED = (
    "machine|Python|torch|engine|CPUs|waiting|sessions|threads|cores|memory|within this machine|cross-process reads|"
    "blocks|large arrays|/dev/shm|huge pages|locked memory|codecs|devices|interfaces|between machines|ports|secret"
).split("|")
HERE = Environment({}, Settings())


def test_everything_is_examined_on_this_machine() -> None:
    command = [sys.executable, "-m", "paceline", "doctor", "--json"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr
    findings = json.loads(done.stdout)
    assert [finding["topic"] for finding in findings] == EXPECTED
    assert all(finding["value"] and finding["reason"] for finding in findings)
    assert [f for f in findings if f["value"] == "could not be examined"] == []


def test_ways_of_large_arrays_are_really_tried() -> None:
    finding = memory.large_arrays(Environment(environment(), Settings()))
    sizes = [part.split()[:2] for part in finding.value.split("; ")]
    assert sizes == [["256", "KiB"], ["1", "MiB"], ["4", "MiB"], ["16", "MiB"]]
    assert all(" staged by " in part or " fetched by " in part for part in finding.value.split("; "))
    assert "tried by two ranks in" in finding.reason


def test_what_was_gained_by_trying_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = [
        [1 << 20, True, 0, [["staged", 1 << 18, 0.2], ["fetched", 1 << 18, 0.19]]],
        [1 << 22, True, 1, [["fetched", 1 << 19, 0.4], ["staged", 1 << 18, 0.3]]],
    ]
    monkeypatch.setattr(memory, "_tried", lambda environ: {"seconds": 0.0123, "ways": ways})
    finding = memory.large_arrays(HERE)
    assert finding.value == "1 MiB staged by 256 KiB; 4 MiB staged by 256 KiB"
    assert "in 12.3 ms" in finding.reason and "4 MiB 25%" in finding.reason and "1 MiB" not in finding.reason


def test_siblings_are_really_asked_to_read() -> None:
    finding = memory.cross_process_reads(HERE)
    assert finding.value in ("work", "refused")
    assert bool(finding.advice) == (finding.value == "refused")


def test_reads_that_are_refused_cost_an_explanation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "siblings_can_read", lambda: False)
    monkeypatch.setattr(memory, "_text", lambda path: "2")
    finding = memory.cross_process_reads(HERE)
    assert finding.value == "refused" and "kernel.yama.ptrace_scope" in finding.advice


@pytest.mark.parametrize("got", [True, False])
def test_huge_pages_are_what_an_array_got_not_what_a_setting_says(monkeypatch: pytest.MonkeyPatch, got: bool) -> None:
    real = memory.huge_pages(HERE)
    assert real.value == "not available" or ("gets them" in real.value) == memory.shared_array_has_huge_pages()
    settings = {"enabled": "always [madvise] never", "shmem_enabled": "always advise [never] deny"}
    monkeypatch.setattr(memory, "_text", lambda path: settings[path.rpartition("/")[2]])
    monkeypatch.setattr(memory, "shared_array_has_huge_pages", lambda: got)
    finding = memory.huge_pages(HERE)
    assert ("gets them" if got else "does not get") in finding.value
    assert ("shmem_enabled" in finding.advice) == (not got)


@pytest.mark.parametrize(
    ("version", "supported"),
    [("2.11.0", True), ("2.13.0+cpu", True), ("2.15.1", True), ("2.10.9", False), ("2.16.0.dev1", False)],
)
def test_torch_versions(monkeypatch: pytest.MonkeyPatch, version: str, supported: bool) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: version)
    finding = software.torch(HERE)
    assert ("not supported" in finding.value) is not supported
    assert bool(finding.advice) is not supported


def test_the_range_is_what_the_package_asks_for() -> None:
    (major, oldest), (_, newest) = OLDEST_TORCH, NEWEST_TORCH
    project = Path(__file__).parents[2] / "pyproject.toml"
    assert f'"torch>={major}.{oldest},<{major}.{newest + 1}"' in project.read_text()


def test_a_setting_that_is_wrong_is_a_finding() -> None:
    first = survey.survey({"PACELINE_PORTS": "many"})[0]
    assert (first.topic, first.value) == ("environment", "wrong") and "PACELINE_PORTS" in first.reason


def test_a_check_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "_CHECKS", (("broken", "no_such_module", "check"),))
    (finding,) = survey.survey({})
    assert finding.value == "could not be examined" and "no_such_module" in finding.reason


def test_the_table_and_the_json_say_the_same() -> None:
    findings = [Finding("CPUs", "2", "affinity [0-1]", "more CPUs"), Finding("torch", "none", "not installed")]
    page = io.StringIO()
    show(findings, Console(file=page, width=100))
    for finding in json.loads(to_json(findings)):
        assert all(text in page.getvalue() for text in finding.values())


def test_a_driver_that_is_there_is_found(tmp_path: Path) -> None:
    program = (
        "from paceline.cli.doctor.devices import devices\n"
        "import os\n"
        "from paceline.cli.doctor.finding import Environment\n"
        "from paceline.settings.settings import Settings\n"
        "found = devices(Environment(os.environ, Settings.from_environment()))\n"
        "print(found.value, found.reason, sep='|')"
    )

    def devices(folder: Path, **wish: str) -> list[str]:
        here = environment(LD_LIBRARY_PATH=str(folder), **wish)
        done = subprocess.run([sys.executable, "-c", program], env=here, capture_output=True, text=True, timeout=150)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip().split("|")

    there = Path(__file__).parents[2] / "build" / "engine" / "double"
    value, reason = devices(there)
    assert value == "0: Paceline's stand-in for a device"
    assert reason.startswith("NCCL serves CUDA tensors of torch") and "PACELINE_CUDA=engine" in reason
    value, reason = devices(there, PACELINE_CUDA="engine")
    assert value == "0: Paceline's stand-in for a device"
    assert "ranks that share a device, or" in reason or "go through the host" in reason
    (tmp_path / "libcuda.so.1").write_text("no library")
    value, reason = devices(tmp_path)
    assert value == "none" and "there is no driver" in reason
