"""What the launcher decides before it starts anything: arguments, threads, cores, the command line for torchrun."""

import errno
import os
import shlex
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cpu.budget import budget as budget_of
from paceline.cpu.budget import ranges
from paceline.host_name import host_name
from paceline.launch import child, torchrun
from paceline.launch.arguments import split
from paceline.launch.job import wrapped
from paceline.launch.output_stream import OutputStream, last_traceback
from paceline.launch.resources import of_machine, plan_resources, plausible, share
from paceline.launch.run import LaunchRequest, check, ranks_environment
from paceline.launch.unstarted import waits_for
from paceline.monitor.failure_report import FailureReport
from paceline.torch.installed import require_torch


@dataclass(frozen=True)
class Cpus:
    """A budget as `paceline.cpu.budget` would give it."""

    cpus: float = 8.0
    affinity: tuple[int, ...] = field(default=tuple(range(8)))
    quota: float | None = None


def test_arguments_are_sorted_by_owner() -> None:
    line = "-n 4 --nnodes=2 --pin -r 3 --rdzv_endpoint host:1 -m train --lr 0.1 -n 7"
    parts = split(line.split())
    assert parts.own == ("-n", "4", "--pin")
    assert parts.torchrun == ("--nnodes=2", "-r", "3", "--rdzv_endpoint", "host:1", "-m")
    assert parts.program == ("train", "--lr", "0.1", "-n", "7")
    assert parts.value("--rdzv-endpoint") == "host:1" and parts.value("--nnodes") == "2"
    assert parts.gives("--redirects", "-r") and not parts.gives("--tee")


def test_two_dashes_end_the_options() -> None:
    assert split(["-n4", "--", "--strange.py", "--", "x"]).program == ("--strange.py", "--", "x")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("-n", "-n needs a value"),
        ("-n 2 --nnodes", "--nnodes needs a value"),
        ("-n 2 --epochs 3 train.py", "--epochs is an option of neither"),
        ("-x train.py", "-x is an option of neither"),
    ],
)
def test_arguments_that_nobody_understands(line: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        split(line.split())


def test_options_of_a_newer_torchrun_can_be_passed() -> None:
    assert split(["--from-the-future=1", "train.py"]).torchrun == ("--from-the-future=1",)


@pytest.mark.parametrize(
    ("ranks", "budget", "threads"),
    [(4, Cpus(), 2), (3, Cpus(), 2), (8, Cpus(), 1), (16, Cpus(), 1), (2, Cpus(cpus=3.5, quota=3.5), 1)],
)
def test_threads_share_the_cpus(ranks: int, budget: Cpus, threads: int) -> None:
    plan = plan_resources(ranks, budget, {})
    assert plan.threads == threads
    assert plan.variables["OMP_NUM_THREADS"] == plan.variables["MKL_NUM_THREADS"] == str(threads)
    assert f"{threads} per rank" in plan.reasons[0]


def test_what_the_user_set_is_kept_and_said() -> None:
    plan = plan_resources(4, Cpus(), {"OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "5"}, threads=7)
    assert not plan.variables and plan.threads is None
    assert "OMP_NUM_THREADS=3, MKL_NUM_THREADS=5 kept" in plan.reasons[0] and "--threads 7 ignored" in plan.reasons[0]
    plan = plan_resources(4, Cpus(), {"MKL_NUM_THREADS": "5"})
    assert plan.variables["OMP_NUM_THREADS"] == "2" and "MKL_NUM_THREADS" not in plan.variables
    assert "MKL_NUM_THREADS=5 kept" in plan.reasons[0]


def test_pinning_gives_each_rank_its_own() -> None:
    assert plan_resources(4, Cpus(), {}, pin=True).cores == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert plan_resources(4, Cpus(), {}).cores == ()
    with pytest.raises(ValueError, match="9 ranks, 8 CPUs"):
        plan_resources(9, Cpus(), {}, pin=True)
    with pytest.raises(ValueError, match="--pin needs a number"):
        plan_resources(None, Cpus(), {}, pin=True)


@given(st.sets(st.integers(0, 400), min_size=1), st.integers(1, 64))
def test_shares_cover_the_cpus_evenly(cpus: set[int], ranks: int) -> None:
    shares = share(tuple(cpus), ranks)
    if len(cpus) < ranks:
        assert shares == ()
        return
    assert sorted(cpu for own in shares for cpu in own) == sorted(cpus)
    sizes = [len(own) for own in shares]
    assert len(sizes) == ranks and max(sizes) - min(sizes) <= 1 and min(sizes) >= 1


@given(st.sets(st.integers(0, 60)))
def test_ranges_say_which_cpus(cpus: set[int]) -> None:
    read: set[int] = set()
    for part in filter(None, ranges(tuple(cpus)).split(",")):
        first, _, last = part.partition("-")
        read.update(range(int(first), int(last or first) + 1))
    assert read == cpus


def line_for(words: str, environ: dict[str, str] | None = None) -> str:
    return " ".join(torchrun.command(split(shlex.split(words)), "4", environ or {}))


def test_one_machine_meets_at_a_free_local_port() -> None:
    line = line_for("train.py --lr 1")
    assert "--nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:0" in line
    assert line.endswith(" train.py --lr 1") and "--no-python" not in line


def test_the_port_at_which_torchruns_ranks_meet_lies_in_the_range() -> None:
    line = torchrun.command(split(["train.py"]), "4", {"PACELINE_PORTS": "40000-40050"})
    (place,) = [word for word in line if word.startswith("--rdzv-endpoint=127.0.0.1:")]
    assert 40000 <= int(place.rpartition(":")[2]) <= 40050


@pytest.mark.parametrize(
    "words", ["--standalone", "--rdzv-endpoint=a:1", "--master_port 29501", "--nnodes 2 --rdzv-endpoint a:1"]
)
def test_the_users_rendezvous_is_untouched(words: str) -> None:
    line = line_for(f"{words} train.py")
    assert "127.0.0.1:0" not in line and f"--nproc-per-node=4 {words} train.py" in line
    assert "127.0.0.1:0" not in line_for("train.py", {"PET_RDZV_ENDPOINT": "a:1"})


def test_what_torchrun_keeps_goes_where_the_user_says() -> None:
    words = split(["--log-dir", "mine", "train.py"])
    assert torchrun.TorchrunJob(words, "2", {}).folder is None
    assert torchrun.TorchrunJob(split(["train.py"]), "2", {"PET_LOG_DIR": "mine"}).folder is None
    job = torchrun.TorchrunJob(split(["train.py"]), "2", {})
    assert job.folder is not None and job.folder.is_dir()
    job.terminate()
    assert not job.folder.exists()


def test_modules_and_programs() -> None:
    assert line_for("-m pack.age x").endswith(" -m pack.age x")
    assert line_for("--no-python ./a.out x").endswith("--no-python ./a.out x")
    assert line_for("--run-path /a.py x").endswith("--run-path /a.py x")
    assert line_for("sh -c true").endswith("--no-python sh -c true")
    assert line_for(f"{shlex.quote(sys.executable)} x.py").endswith(f"--no-python {sys.executable} x.py")


def test_a_file_that_starts_by_itself_is_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    texts = {"wrap": "#!/bin/sh\n", "train": "#!/usr/bin/env python3\n", "plain.py": "pass\n", "notes": "#!/bin/sh\n"}
    for name, text in texts.items():
        Path(name).write_text(text)
        Path(name).chmod(0o644 if name == "notes" else 0o755)
    assert line_for("wrap x").endswith("--no-python ./wrap x")
    assert line_for(f"{tmp_path}/wrap x").endswith(f"--no-python {tmp_path}/wrap x")
    for name in ("train", "plain.py", "notes"):
        assert line_for(name).endswith(f" {name}") and "--no-python" not in line_for(name)


def test_what_may_not_be_executed_is_refused(tmp_path: Path) -> None:
    binary = tmp_path / "python"
    binary.write_bytes(b"\x7fELF")
    binary.chmod(0o644)
    with pytest.raises(ValueError, match=f"^{binary} may not be executed$"):
        check(LaunchRequest(split([str(binary), "x.py"]), "2"), {}, False)
    with pytest.raises(ValueError, match=f"^{binary} may not be executed$"):
        check(LaunchRequest(split(["-m", "x"]), "2"), {"PYTHON_EXEC": str(binary)}, False)


def test_more_ranks_than_anybody_means_are_questioned() -> None:
    plausible(1024, Cpus())
    with pytest.raises(
        ValueError, match=r"^-n 100000: did you mean so many\? With 8 CPUs, at most 1024 ranks start here$"
    ):
        plausible(100_000, Cpus())


def test_the_secret_is_made_for_one_machine_only() -> None:
    plan = plan_resources(2, Cpus(), {})
    one, notes = ranks_environment(LaunchRequest(split(["a.py"]), "2"), {}, plan)
    assert len(one["PACELINE_SECRET"]) == 64 and not notes
    two, notes = ranks_environment(LaunchRequest(split(["--nnodes=2", "a.py"]), "2"), {}, plan)
    assert "PACELINE_SECRET" not in two and "PACELINE_SECRET" in notes[0]
    kept, _ = ranks_environment(LaunchRequest(split(["a.py"]), "2"), {"PACELINE_SECRET": "ours"}, plan)
    assert kept["PACELINE_SECRET"] == "ours"


def test_inter_op_threads_are_told_to_both_frameworks() -> None:
    plan = plan_resources(2, Cpus(), {})
    environment, _ = ranks_environment(LaunchRequest(split(["a.py"]), "2", interop=3), {}, plan)
    assert environment["PACELINE_INTEROP_THREADS"] == environment["TF_NUM_INTEROP_THREADS"] == "3"


def test_what_ranks_print_comes_at_once() -> None:
    plan = plan_resources(2, Cpus(), {})
    for set_by_user, expected in (({}, "1"), ({"PYTHONUNBUFFERED": ""}, "")):
        environment, _ = ranks_environment(LaunchRequest(split(["python", "a.py"]), "2"), set_by_user, plan)
        assert environment["PYTHONUNBUFFERED"] == expected


def test_without_a_place_for_temporary_files_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torchrun.tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(ValueError, match="needs a folder for temporary files: No such file or directory; TMPDIR"):
        torchrun.TorchrunJob(split(["train.py"]), "2", {})


def test_torchruns_own_variables_say_how_many_ranks_are_here_and_elsewhere() -> None:
    assert torchrun.ranks_here({"PET_NPROC_PER_NODE": "3"}) == "3"
    assert torchrun.ranks_here({}) == ""
    with pytest.raises(ValueError, match="several machines needs torchrun, and --direct was given"):
        check(LaunchRequest(split(["sh"]), "2", direct=True), {"PET_NNODES": "2"}, True)


@pytest.mark.parametrize(
    ("words", "options", "complaint"),
    [
        ("", {}, "name the program"),
        ("no-such-file.py", {}, "there is no program no-such-file.py"),
        ("-m x", {"ranks": "0"}, "at least one rank"),
        ("-m x", {"ranks": "many"}, "must be a number"),
        ("--nnodes 2 -m x", {"direct": True}, "--nnodes is an option of torchrun"),
        ("-m x", {"direct": True, "ranks": "auto"}, "without torchrun"),
    ],
)
def test_requests_that_cannot_be_carried_out(words: str, options: dict[str, object], complaint: str) -> None:
    request = LaunchRequest(split(words.split()), **{"ranks": "2", **options})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=complaint):
        check(request, {}, request.direct)


def test_settings_that_no_rank_would_take() -> None:
    with pytest.raises(ValueError, match="PACELINE_PORTS='many' should be a port range"):
        check(LaunchRequest(split(["-m", "x"]), "2"), {"PACELINE_PORTS": "many"}, False)
    check(
        LaunchRequest(split(["-m", "x"]), "2", cores="static"), {"PACELINE_CORES": "overridden", "RANK": "none"}, False
    )


SUMMARY = """
Failures:
[1]:
  time      : 2026-01-01_00:00:00
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 13222)  (SIGTERM)
Root Cause (first observed failure):
[0]:
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 13223)
"""


def test_torchruns_summary_is_understood() -> None:
    assert [(f.name, f.code, f.pid) for f in torchrun.failures(SUMMARY)] == [
        ("rank 0", 143, 13222),
        ("rank 1", 1, 13223),
    ]
    assert torchrun.failures("rank : 1 (local_rank: 1) exitcode : 1 (pid: 3)") == []


@pytest.mark.parametrize(
    ("raised", "reported", "blames"),
    [
        (["paceline.errors.PeerLost: rank 1 died"], False, True),
        (["paceline.errors.Aborted"], False, True),
        (["paceline.errors.PeerLost: rank 1 died", "HorovodInternalError: rank 1 died"], True, True),
        (["ValueError: no rank raised paceline.errors.PeerLost: here"], True, False),
        (["requests.exceptions.Timeout: the bank does not answer"], False, False),
        (["RuntimeError: Cannot extract tensors from value: PeerLost: rank 1 died"], True, True),
        (["RuntimeError: PeerLost: of a novel"], False, False),
    ],
)
def test_who_blames_another_is_known_by_the_classes_of_its_errors(
    raised: list[str], reported: bool, blames: bool
) -> None:
    stream = OutputStream(0, 0, 1, -1)
    trace = 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n    x()\n    ^^^\n'
    cause = "\n\nThe above exception was the direct cause of the following exception:\n\n"
    stream.record(("noise\n" + cause.join(trace + error for error in raised) + "\n").encode())
    if reported:
        stream.failure = FailureReport(1, 0, "PeerLost", "")
    assert stream.blames_another == blames


def test_the_last_traceback_brings_its_cause() -> None:
    trace = "Traceback (most recent call last):\n  File x\n"
    harmless = trace + "OSError: logged\nall is well\n"
    cause = trace + "KeyError: 1\n\nThe above exception was the direct cause of the following exception:\n\n"
    assert last_traceback(harmless + cause + trace + "RuntimeError: boo\n") == cause + trace + "RuntimeError: boo"
    assert last_traceback("nothing") == ""
    prefixed = "".join(f"[rank1]: {line}\n" for line in (trace + "E: 1").splitlines())
    assert last_traceback("noise\n" + prefixed) == (trace + "E: 1")


class _NamedNumber(int):
    """A number whose text is a name, as that of a signal is in Python 3.10."""

    def __str__(self) -> str:
        return "Signals.SIGKILL"


def test_the_signal_of_a_command_line_is_its_number() -> None:
    words = wrapped(["train.py"], death_signal=_NamedNumber(9), parent=1)
    assert words[words.index(child.__file__) + 1] == "9"


def test_what_torchrun_waits_for_is_said_in_plain_sentences() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        words = split(["--nnodes", "3", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "train.py"])
        answered = waits_for(words, {})
    first = f"no rank has started on {socket.gethostname()}. "
    second = f"torchrun waits until 3 machines (--nnodes) have met at 127.0.0.1:{port}. "
    assert answered == f"{first}{second}It answers there: start the same command on the other machines."
    assert waits_for(words, {}) == (
        f"{first}{second}This machine cannot connect there: refused: nobody listens on port {port} of 127.0.0.1."
    )


@pytest.mark.parametrize(
    ("cpus", "quota", "machines", "threads"),
    [
        (8, None, [range(2), range(2, 4)], [2, 2]),
        (8, None, [range(2), range(2, 8)], [1, 1]),
        (2, None, [range(2), range(2, 5)], [1, 1]),
        (8, 4.0, [range(2), range(2, 4)], [1, 1]),
        (1, None, [range(1), range(1, 2), range(2, 3)], [1, 1, 1]),
    ],
)
def test_machines_of_a_lab_share_the_cpus(
    cpus: int, quota: float | None, machines: list[range], threads: list[int]
) -> None:
    whole, world = budget_of(range(cpus), quota), machines[-1].stop
    parts = [of_machine(whole, ranks, world) for ranks in machines]
    plans = [plan_resources(len(ranks), part, {}) for ranks, part in zip(machines, parts, strict=True)]
    assert [plan.threads for plan in plans] == threads
    assert sum(part.cpus for part in parts) == pytest.approx(whole.cpus)
    assert {cpu for part in parts for cpu in part.affinity} == set(whole.affinity)
    if cpus >= world:
        assert sum(len(part.affinity) for part in parts) == cpus, "each has its own"


def test_what_no_job_can_do_without_is_asked_for_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> int:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(socket, "gethostname", lambda: b"caf\xe9".decode(errors="surrogateescape"))
    assert host_name() == "caf\\xe9"
    check(LaunchRequest(split([sys.executable]), "2", direct=True), {}, True)
    with pytest.raises(ValueError, match=r"torchrun does not run where .*, as caf.xe9: change it, or .* --direct"):
        check(LaunchRequest(split([sys.executable]), "2"), {}, False)
    monkeypatch.setattr(os, "eventfd", denied)
    with pytest.raises(ValueError, match=r"allows no eventfd \(Operation not permitted\), which every rank"):
        check(LaunchRequest(split([sys.executable]), "2", direct=True), {}, True)


def test_torch_is_asked_for_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"^paceline\.torch needs PyTorch [0-9.]+-[0-9.]+, which is not installed"):
        require_torch("paceline.torch")
