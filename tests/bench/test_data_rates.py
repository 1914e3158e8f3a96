"""`paceline bench data`: counted bytes, right gradients, and figures that follow from the answers of the ranks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benched import bench

torch = pytest.importorskip("torch")

from paceline.bench.data.measure import APPROACHES, NETWORKS, row  # noqa: E402
from paceline.bench.ranks import data_networks  # noqa: E402
from paceline.bench.ranks.data_training import CATEGORIES  # noqa: E402
from paceline.bench.ranks.images import Images  # noqa: E402
from paceline.bench.ranks.models.bert import Bert  # noqa: E402
from paceline.bench.ranks.models.mobile import mnasnet, mobilenet_v2  # noqa: E402
from paceline.bench.ranks.models.plain import vgg  # noqa: E402

WEIGHTS = {
    "VGG-19": (lambda: vgg(19), 143_667_240),
    "MobileNet v2": (mobilenet_v2, 3_504_872),
    "MNASNet 1.3": (lambda: mnasnet(depth=1.3), 6_282_256),
    "BERT-large": (Bert, 334_092_290),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_full_networks_have_the_weights_that_everybodys_have(name: str) -> None:
    make, count = WEIGHTS[name]
    with torch.device("meta"):
        assert sum(one.numel() for one in make().parameters()) == count


@pytest.mark.parametrize("name", NETWORKS)
def test_the_narrower_networks_take_their_samples(name: str) -> None:
    inputs, label = data_networks.dataset(name)[3]
    scores = data_networks.network(name).eval()(inputs[None])
    assert scores.shape[0] == 1 and 0 <= label < scores.shape[1]


def test_an_image_is_the_same_each_time_and_flipped_by_turns() -> None:
    images = Images(1 << 20, 64, 10)
    assert images[2][0].shape == (3, 64, 64) and images[2][0].dtype == torch.float32
    assert torch.equal(images[2][0], images[2 + 32][0])
    assert torch.equal(images[3][0].flip(2), Images(1 << 20, 64, 10)[3][0].flip(2))
    assert -3 < float(images[2][0].mean()) < 3 and float(images[2][0].std()) > 0.1


def answer(seconds: float, moved: int, host_to_device: float, loading: float) -> dict[str, object]:
    categories = {**dict.fromkeys(CATEGORIES, 0.5), "host_to_device": host_to_device}
    return {"seconds": seconds, "categories": categories, "moved": moved, "loading": loading}


def test_a_row_is_of_the_slowest_rank_and_of_the_masters_categories() -> None:
    rounds = [
        [answer(1.0, 60, 0.1, 1.0), answer(2.0, 20, 0.9, 0.0)],
        [answer(3.0, 60, 0.3, 1.0), answer(2.0, 20, 0.9, 0.0)],
        [answer(5.0, 60, 0.2, 1.0), answer(4.0, 20, 0.9, 0.0)],
    ]
    found = row("splitting", "AlexNet", rounds, steps=2, nbytes=99, wrong=0)
    assert (found.step_ms, found.step_ms_q1, found.step_ms_q3) == (1500, 1250, 2000)
    assert (found.batch_bytes, found.devices, found.parameter_bytes) == (40, 2, 99)
    assert (found.host_to_device_ms, found.compute_ms, found.hidden_share) == (100, 250, 0.8)


def test_rows_through_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    words = ("-n", 2, "--batch", 2, "--models", "MobileNet v2", "--rounds", 3, "--steps", 1)
    done = bench("data", *words, "--json", file)
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())
    assert [one["approach"] for one in rows] == list(APPROACHES)
    whole = 4 * (4 * 3 * 64 * 64 + 8)  # images and labels
    # The master's own part stays where it is; the other half goes a second way.
    wanted = {"master": whole + whole // 2, "splitting": whole, "pre_loading": whole, "ddp_gloo": whole}
    assert {one["approach"]: one["batch_bytes"] for one in rows} == wanted
    for one in rows:
        assert one["wrong"] == 0 and 0 <= one["hidden_share"] <= 1 and one["step_ms"] > 0
        assert (one["peer_to_peer_ms"] > 0) == (one["approach"] == "master")


def test_an_unknown_network_is_refused() -> None:
    done = bench("data", "--models", "LeNet")
    assert done.returncode == 2 and "LeNet" in done.stderr
