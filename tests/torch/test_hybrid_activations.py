"""Activations that are not kept: how a stage is divided, computing again, and a file."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from paceline.torch.available_memory import available_memory
from paceline.torch.compat import PIPELINES, torch_version
from paceline.torch.partitioned import activation_file
from paceline.torch.partitioned.activation_file import ActivationFile
from paceline.torch.partitioned.cut import Chain
from paceline.torch.partitioned.errors import HybridError
from paceline.torch.partitioned.recompute import recomputed
from paceline.torch.partitioned.segments import Segment, divide, held

pytestmark = pytest.mark.skipif(torch_version() < PIPELINES, reason="torch's pipelines are too old")

MIB = 1 << 20


def chain(saved: Sequence[float], crossing: Sequence[float]) -> Chain:
    zeros = [0.0] * len(saved)
    return Chain([1.0] * len(saved), zeros, saved, zeros, crossing, crossing, [[] for _ in saved])


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    saved = draw(st.lists(st.integers(1, 9).map(float), min_size=1, max_size=12))
    inner = st.lists(st.integers(1, 3).map(float) | st.just(math.inf), min_size=len(saved) - 1, max_size=len(saved) - 1)
    return chain(saved, [1.0, *draw(inner), 1.0])


def needed(chain: Chain, segments: Sequence[Segment], in_flight: int) -> float:
    each, more = held(chain, segments)
    return in_flight * each + more


@given(chains(), st.integers(1, 4), st.floats(0, 200), st.sampled_from(["recompute", "file"]))
@settings(deadline=None)
def test_a_stage_is_divided_where_it_can_be(chain: Chain, in_flight: int, room: float, beyond: str) -> None:
    calls = len(chain.saved)
    segments = divide(chain, 0, calls, in_flight, room, beyond)  # type: ignore[arg-type]
    assert [one.begin for one in segments] == [0, *(one.end for one in segments[:-1])]
    assert segments[-1].end == calls
    assert all(one.begin < one.end and math.isfinite(chain.up[one.begin]) for one in segments)
    kinds = [one.activations for one in segments]
    assert set(kinds) <= {beyond, "keep"}
    assert "keep" not in kinds[:-1]
    if in_flight * sum(chain.saved) <= room:
        assert segments == (Segment(0, calls, "keep"),)
    if beyond == "file":
        assert needed(chain, segments, in_flight) <= max(room, 0.0) or "keep" not in kinds
    else:
        everything = needed(chain, divide(chain, 0, calls, in_flight, 0.0, "recompute"), in_flight)
        assert needed(chain, segments, in_flight) <= max(room, everything)


def test_a_deep_chain_needs_the_root_of_its_activations() -> None:
    """100 calls: with 10 segments, 9 inputs between them and the activations of 10 calls."""
    deep = chain([1.0] * 100, [1.0] * 101)
    assert needed(deep, divide(deep, 0, 100, 1, 0.0, "recompute"), 1) == pytest.approx(20, abs=1.5)
    half = divide(deep, 0, 100, 1, 60.0, "recompute")
    assert 50 <= half[-1].end - half[-1].begin <= 60
    assert half[-1].activations == "keep"


def test_segments_begin_where_little_crosses() -> None:
    residual = chain([1.0] * 40, [1.0 if place % 4 == 0 else 5.0 for place in range(41)])
    assert all(one.begin % 4 == 0 for one in divide(residual, 0, 40, 1, 0.0, "recompute"))


class Counting(nn.Module):
    """A call whose result depends on a buffer that it changes, on random numbers, and on the batch's statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))
        self.norm = nn.BatchNorm1d(8)
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor]:
        self.seen += 1
        x = self.norm(self.layer(x) * self.seen.clone())
        return (nn.functional.dropout(x.sigmoid(), 0.5).exp(),)


@pytest.mark.parametrize("twice", [False, True])
def test_what_is_computed_again_is_the_same(twice: bool) -> None:
    """Two microbatches are in flight, and the first one's backward comes last; `twice` in two halves."""
    found = []
    for again in (False, True):
        torch.manual_seed(0)
        part = Counting()
        parts = [torch.randn(16, 8, requires_grad=True) for _ in range(2)]
        outputs = [(recomputed(part, (x,), True) if again else part(x))[0] for x in parts]
        for x, output in reversed(list(zip(parts, outputs, strict=True))):
            if twice:
                (x.grad,) = torch.autograd.grad(output.sum(), x, retain_graph=True)
            weights = torch.autograd.grad(output.sum(), list(part.parameters()))
            found.append([*weights, *([x.grad] if twice else [])])
        found.append([*part.buffers(), torch.get_rng_state(), *outputs])
    for plain, other in zip(found[:3], found[3:], strict=True):
        assert all(torch.equal(one, two) for one, two in zip(plain, other, strict=True))


def test_what_is_computed_again_is_not_kept() -> None:
    kept: list[int] = []
    layers = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(8)))

    def count(tensor: Tensor) -> Tensor:
        kept.append(tensor.untyped_storage().nbytes())
        return tensor.detach()

    part = nn.Module()
    part.forward = lambda x: (layers(x),)  # type: ignore[method-assign]
    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        recomputed(part, (torch.randn(512, 64),), False)
    assert sum(kept) == 512 * 64 * 4


def size(file: ActivationFile) -> int:
    return os.fstat(file._file.fileno()).st_size


def test_a_file_holds_what_autograd_saves(tmp_path: Path) -> None:
    """Views, one tensor saved by two calls, one changed in place in between, and small ones, which stay in memory."""
    torch.manual_seed(0)
    weight = torch.randn(256, 256, requires_grad=True)

    def compute(x: Tensor) -> Tensor:
        y = (x @ weight.t()).relu_()
        first, second = y.chunk(2, 1)
        z = first.sin() * second.t().contiguous().t().cos()
        return (z.mul_(2.0) @ weight[:128]).tanh() * x[:, :1].exp()

    given = [torch.randn(256, 256, requires_grad=True) for _ in range(3)]
    expected = [torch.autograd.grad(compute(x).sum(), (x, weight)) for x in given]
    with patch("tempfile.tempdir", str(tmp_path)), patch.object(activation_file, "_in_memory", lambda _: False):
        file = ActivationFile()
    assert not list(tmp_path.iterdir())  # it has no name
    sizes = []
    for _ in range(3):
        outputs = []
        for x in given:
            with file.saving((x, weight)):
                outputs.append(compute(x))
        for x, output, gradients in zip(given, outputs, expected, strict=True):
            found = torch.autograd.grad(output.sum(), (x, weight))
            assert all(torch.equal(one, two) for one, two in zip(found, gradients, strict=True))
        del outputs, output
        sizes.append(size(file))
    assert sizes[0] >= 3 * 256 * 256 * 4
    assert sizes[1:] == sizes[:1] * 2  # places are used again
    file.close()


def test_a_file_holds_conjugates_and_negatives(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x, weight = (torch.randn(96, 96, dtype=torch.complex128, requires_grad=True) for _ in range(2))

    def compute() -> Tensor:
        conjugate = (x * 1).conj()
        return (conjugate * (weight * 1)).imag.square().sum() + (conjugate.imag * weight.real).square().sum()

    expected = torch.autograd.grad(compute(), (x, weight))
    with patch("tempfile.tempdir", str(tmp_path)), patch.object(activation_file, "_in_memory", lambda _: False):
        file = ActivationFile()
    with file.saving(()):
        output = compute()
    assert size(file)
    found = torch.autograd.grad(output, (x, weight))
    assert all(torch.equal(one, two) for one, two in zip(found, expected, strict=True))
    file.close()


def test_a_file_holds_what_a_call_fills_after_it_has_saved_it(tmp_path: Path) -> None:
    x, rrelu = torch.full((256, 256), -1.0, requires_grad=True), torch.nn.RReLU()
    with patch("tempfile.tempdir", str(tmp_path)), patch.object(activation_file, "_in_memory", lambda _: False):
        file = ActivationFile()
    with file.saving(()):
        output = rrelu(x)
    assert size(file)
    (found,) = torch.autograd.grad(output.sum(), x)
    assert torch.equal(found, -output)
    file.close()


def test_a_tensor_keeps_its_place_in_the_file(tmp_path: Path) -> None:
    """What a backward was given stays what it is, also if somebody keeps it until others write."""
    with patch("tempfile.tempdir", str(tmp_path)), patch.object(activation_file, "_in_memory", lambda _: False):
        file = ActivationFile()
    kept: list[Tensor] = []
    for value in range(4):
        x = torch.full((256, 256), float(value), requires_grad=True)
        with file.saving(()):
            y = x.exp()
        kept.append(y.grad_fn.saved_result if hasattr(y.grad_fn, "saved_result") else y.grad_fn._saved_result)
        del x, y
    assert [tensor.unique().tolist() for tensor in kept] == [pytest.approx([math.exp(value)]) for value in range(4)]
    file.close()


def test_a_folder_in_memory_is_refused() -> None:
    with (
        patch("tempfile.tempdir", "/dev/shm"),
        pytest.raises(HybridError, match="can't be kept in a file in /dev/shm, which lies in memory: let TMPDIR"),
    ):
        ActivationFile()


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with patch("tempfile.tempdir", str(tmp_path)), patch.object(activation_file, "_in_memory", lambda _: False):
        file = ActivationFile()
    with (
        patch.object(os, "pwrite", side_effect=OSError(28, "No space left on device")),
        pytest.raises(HybridError, match=r"activations can't be written to .*: No space left on device"),
        file.saving(()),
    ):
        torch.randn(MIB, requires_grad=True).exp()
    file.close()


V1 = "32 31 0:29 / /sys/fs/cgroup/memory rw shared:5 - cgroup cgroup rw,memory\n"
V2 = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, math.inf),
        ({"/proc/self/cgroup": "0::/a/b\n", "/proc/self/mountinfo": V2}, math.inf),
        (
            {
                "/proc/self/cgroup": "0::/a/b\n",
                "/proc/self/mountinfo": V2,
                "/sys/fs/cgroup/a/memory.max": f"{3 << 30}\n",
                "/sys/fs/cgroup/a/memory.current": f"{2 << 30}\n",
                "/sys/fs/cgroup/a/memory.stat": f"anon 5\nfile 7\ninactive_file {1 << 29}\n",
                "/sys/fs/cgroup/a/b/memory.max": "max\n",
            },
            (1 << 30) + (1 << 29),
        ),
        (
            {
                "/proc/self/cgroup": "4:memory:/job\n0::/\n",
                "/proc/self/mountinfo": V1,
                "/sys/fs/cgroup/memory/job/memory.limit_in_bytes": f"{3 << 30}\n",
                "/sys/fs/cgroup/memory/job/memory.usage_in_bytes": f"{1 << 30}\n",
            },
            2 << 30,
        ),
    ],
)
def test_available_memory(files: dict[str, str], expected: float) -> None:
    machine = {"/proc/meminfo": f"MemTotal: 9 kB\nMemAvailable:   {8 << 20} kB\n"}
    assert available_memory((machine | files).get) == (8 << 30, expected)
