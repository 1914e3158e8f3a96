"""The benchmarks' networks have the weights that everybody's have."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from paceline_bench.ranks.models import NETWORKS, pixels  # noqa: E402

WEIGHTS = {
    "ResNet-18": (11_689_512, 62),
    "ResNet-34": (21_797_672, 110),
    "ResNet-50": (25_557_032, 161),
    "ResNet-101": (44_549_160, 314),
    "ResNet-152": (60_192_808, 467),
    "AlexNet": (61_100_840, 16),
    "GoogLeNet": (6_624_904, 173),
    "Inception-v3": (23_834_568, 284),
    "VGG16": (138_357_544, 32),
}


def test_there_are_nine() -> None:
    assert list(NETWORKS) == list(WEIGHTS)


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_and_scores(name: str) -> None:
    with torch.device("meta"):
        network = NETWORKS[name]()
        parameters = list(network.parameters())
        assert (sum(one.numel() for one in parameters), len(parameters)) == WEIGHTS[name]
        assert network(torch.empty(2, 3, pixels(name), pixels(name))).shape == (2, 1000)
