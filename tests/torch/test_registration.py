"""How torch finds the backend, which versions it takes, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
import torch.distributed as dist

from paceline.settings.limits import Limits
from paceline.torch import compat, register


def test_registered_for_cpu_and_cuda() -> None:
    register()
    register()
    assert dist.Backend("paceline") == "paceline"
    assert dist.Backend.backend_capability["paceline"] == ["cpu", "cuda"]
    assert dist.get_default_backend_for_device("cpu") == "gloo"


@pytest.mark.parametrize("found", ["2.10.1", "2.16.0+cpu", "1.13.0", "3.0.0"])
def test_other_versions_are_refused_in_one_line(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", found)
    with pytest.raises(RuntimeError) as caught:
        compat.require_supported_torch()
    assert str(caught.value) == f"paceline supports torch 2.11-2.15, found {found}"


@pytest.mark.parametrize("found", ["2.11.0", "2.13.0+cpu", "2.15.2a0+git1234"])
def test_supported_versions(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", found)
    compat.require_supported_torch()


def test_registering_imports_nothing_heavy() -> None:
    code = (
        "import sys, torch, torch.distributed; before = set(sys.modules); import paceline.torch;"
        "print(*sorted(name for name in set(sys.modules) - before if not name.startswith('paceline')))"
    )
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "_engine" not in output and "numpy" not in output, output


def test_cuda_tensors_go_to_an_inner_group(monkeypatch: pytest.MonkeyPatch) -> None:
    from paceline.torch import accelerator

    made: list[Any] = []
    calls: list[Any] = []

    class Inner:
        def allreduce(self, *arguments: object) -> str:
            calls.append(arguments)
            return "work"

    def make(*arguments: object) -> Inner:
        made.append(arguments)
        return Inner()

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(accelerator, "_nccl_group", make)
    group: Any = accelerator.Accelerator()
    group._store, group._rank, group._size, group._limits = "store", 0, 1, Limits(60.0, 30.0)
    for _ in range(2):
        assert group._hand_over("allreduce", torch.device("cuda", 0), ["tensor"], "options") == "work"
    assert made == [("store", 0, 1, 30.0)]
    assert calls == [(["tensor"], "options")] * 2


def test_without_cuda_the_error_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from paceline.torch.accelerator import Accelerator

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="hands CUDA tensors to NCCL; it cannot move a cuda tensor here"):
        Accelerator()._hand_over("allreduce", torch.device("cuda"), [])
