"""Ranks of a trial on machines of a lab, or under `paceline run`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from network import Network
from on_lab import environment
from trials import Trial
from warm_python import Forked

from paceline.launch import tree

HERE = Path(__file__).parent


class LabRanks:
    """Rank r is forked on the machine machines[r]."""

    def __init__(
        self, network: Network, machines: str, argv: Sequence[str], env: Mapping[str, str], output: Path
    ) -> None:
        self.mark = tree.new_mark(env)
        self.processes: list[Forked] = []
        self._network, self._places = network, [int(machine) for machine in machines]
        self._argv, self._env, self._output = argv, env, output

    def __enter__(self) -> LabRanks:
        for rank, machine in enumerate(self._places):
            env = {**self._env, **environment(self._network.lab, self._places, rank), tree.MARK: self.mark}
            for name in ("PACELINE_TIMEOUT", "PACELINE_START_TIMEOUT"):
                env[name] = self._env[name]
            stem = self._output / f"rank-{rank}"
            warm = self._network.warm[machine]
            self.processes.append(warm.start(self._argv, env, stem.with_suffix(".out"), stem.with_suffix(".err")))
        return self

    def __exit__(self, *raised: Any) -> None:
        for process in self.processes:
            process.kill()
            process.wait(30)


class Launched:
    """Ranks that `paceline run` starts, which is the one process here."""

    def __init__(self, trial: Trial, argv: Sequence[str], env: Mapping[str, str], output: Path) -> None:
        self.mark = tree.new_mark(env)
        self.processes: list[subprocess.Popen[bytes]] = []
        words = [sys.executable, "-m", "paceline", "run", "-n", str(len(trial.machines)), *argv]
        paths = [str(HERE), str(HERE.parent), *filter(None, [env.get("PYTHONPATH")])]
        self._env = {**env, "CAMPAIGN_OUTPUT": str(output), "PYTHONPATH": os.pathsep.join(paths), tree.MARK: self.mark}
        self._words, self._output = words, output

    def __enter__(self) -> Launched:
        for rank in range(int(self._words[5])):
            for end in ("out", "err"):
                (self._output / f"rank-{rank}.{end}").touch()
        with (self._output / "launcher.out").open("wb") as file:
            self.processes = [subprocess.Popen(self._words, env=self._env, stdout=file, stderr=file)]
        return self

    def __exit__(self, *raised: Any) -> None:
        self.processes[0].kill()
        self.processes[0].wait(30)
