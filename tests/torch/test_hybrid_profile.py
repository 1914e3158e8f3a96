"""A profile: what it says of calls, and that it needs little memory where there is little."""

from __future__ import annotations

import platform
import random

import pytest
import torch
from torch import Tensor, nn

from paceline.torch.compat import PIPELINES, torch_version
from paceline.torch.partitioned.profile import Profile, profile
from paceline.torch.partitioned.trace import trace
from paceline_bench.ranks.peak_memory import peak, settled

pytestmark = pytest.mark.skipif(torch_version() < PIPELINES, reason="torch's pipelines are too old")

MIB = 1 << 20
LAYERS, SAMPLES = 40, 16


class Deep(nn.Module):
    """Each layer keeps 1 MiB for 16 samples, and a skip connection lives through all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(LAYERS))

    def forward(self, x: Tensor) -> Tensor:
        first = x
        for layer in self.layers:
            x = layer(x)
        return x + first


class Sizes(nn.Module):
    """Calls a method that only a torch.Size has."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers[0](x)
        size = x.size()
        return self.layers[1](x).reshape(size[0], -1)[:, : size.numel() // size[0]]


def test_a_size_stays_one() -> None:
    found = profile(trace(Sizes(), 1), [torch.randn(8, 3, 4)], 4, 1 << 40)
    assert len(found.calls) >= 4


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def profiled(available: float) -> Profile:
    torch.manual_seed(0)
    graph = trace(Deep(), 1)
    return profile(graph, [torch.randn(64, 1024, 16)], SAMPLES, available)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc gives memory back when it is told to")
def test_a_profile_needs_little_where_there_is_little(one_thread: None) -> None:
    """The activations of a microbatch alone are 40 MiB, and the heap has gaps of some hundred MiB."""
    profiled(1 << 40)  # torch loads what it loads when it first trains, and malloc maps no small piece alone any more
    draw = random.Random(0)
    pieces = [torch.empty(draw.randint(MIB // 16, MIB // 2)) for _ in range(800)]
    draw.shuffle(pieces)
    del pieces[::2]
    before = settled()
    found = profiled(8 * MIB)
    assert sum(call.saved for call in found.calls) >= LAYERS * MIB
    assert peak() - before < LAYERS * MIB


def test_what_memory_costs_is_measured_where_it_may_be_short(one_thread: None) -> None:
    plenty, little = profiled(1 << 40), profiled(50 * MIB)
    assert all(call.kept == call.returned for call in plenty.calls)
    assert any(call.kept != call.returned for call in little.calls)
    facts = [[(call.saved, call.mutates, call.random) for call in one.calls] for one in (plenty, little)]
    assert facts[0] == facts[1]
    assert plenty.results == little.results
    assert all(min(*call.kept, *call.returned) >= 0 for call in little.calls)
    assert Profile.load(little.dump()) == little
