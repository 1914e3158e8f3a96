"""Ranks on the machines of a lab: launchers are told where each belongs, and who landed elsewhere is not measured."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paceline.lab.lab import Lab
from paceline.topology import parse
from paceline_bench import starting
from paceline_bench.session import Session, SessionFailed
from paceline_bench.systems import System

LAB = Lab(parse("children: [{machine: a, ranks: 1, uplink: 1 Gbit/s}, {machine: b, ranks: 2, uplink: 1 Gbit/s}]"))


def test_intel_mpi_gets_a_set_of_arguments_for_each_machine(tmp_path: Path) -> None:
    system = System("intelmpi", "mpi4py", "alone:Alone", launcher="intelmpi")
    (command,) = starting.job(system, 3, tmp_path / "s", tmp_path, {}, LAB)._commands
    words = list(command.argv)
    hosts = [(words[at + 1], words[at + 2], words[at + 3]) for at, word in enumerate(words) if word == "-host"]
    assert hosts == [(machine.host, "-n", str(len(machine.ranks))) for machine in LAB.machines]
    assert "-hosts" not in words


def test_a_rank_on_another_machine_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = starting.job
    monkeypatch.setattr(starting, "job", lambda *arguments: here(*arguments[:-1], None))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    session = Session(System("x", "none", "alone:Alone", {"call": "sleep"}), 3, tmp_path, 20)
    try:
        session.start(environment, LAB)
        session.meet()
        with pytest.raises(SessionFailed, match=rf"rank 0 was started on {os.uname().nodename}, not on a"):
            session.begin()
    finally:
        session.stop(gently=False)
