"""`paceline bench data`: counted bytes, right gradients, and figures that follow from the answers of the ranks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benched import bench, refused

torch = pytest.importorskip("torch")

from paceline_bench.data.draw import chart  # noqa: E402
from paceline_bench.data.explain import sentences  # noqa: E402
from paceline_bench.data.measure import APPROACHES, NETWORKS, Rounds, Row, made  # noqa: E402
from paceline_bench.data.measure import CATEGORIES as DATA_CATEGORIES  # noqa: E402
from paceline_bench.ranks import data_networks  # noqa: E402
from paceline_bench.ranks.data_training import CATEGORIES  # noqa: E402
from paceline_bench.ranks.images import Images  # noqa: E402
from paceline_bench.ranks.models.bert import Bert  # noqa: E402
from paceline_bench.ranks.models.mobile import mnasnet, mobilenet_v2  # noqa: E402
from paceline_bench.ranks.models.plain import vgg  # noqa: E402

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


def answer(seconds: float, host_to_device: float) -> dict[str, object]:
    return {"seconds": seconds, "categories": {**dict.fromkeys(CATEGORIES, 0.5), "host_to_device": host_to_device}}


def test_a_row_is_of_the_slowest_device_and_of_the_masters_categories() -> None:
    slow = [[answer(1.0, 1.0), answer(2.0, 9.0)], [answer(4.0, 3.0), answer(2.0, 9.0)], [answer(8.0, 2.0)] * 2]
    fast = [[answer(1.0, 0.1), answer(0.5, 9.0)], [answer(1.0, 0.6), answer(1.0, 9.0)], [answer(2.0, 2.0)] * 2]
    whole = [Rounds("master", 99, 700, 0, slow), Rounds("splitting", 99, 400, 0, slow)]
    rows = made("AlexNet", [*whole, Rounds("pre_loading", 99, 400, 1, fast)], steps=2)
    assert (rows[0].step_ms, rows[0].step_ms_q1, rows[0].step_ms_q3) == (2000, 1500, 3000)
    assert [(one.batch_bytes, one.devices, one.parameter_bytes, one.wrong) for one in rows] == [
        *((700, 2, 99, 0), (400, 2, 99, 0), (400, 2, 99, 1)),
    ]
    assert (rows[1].host_to_device_ms, rows[1].compute_ms) == (1000, 250)
    assert [one.to_master for one in rows] == [1, 1, 0.25]
    assert [one.hidden_share for one in rows] == [0, 0, 0.8]
    svg = chart(rows).as_svg()
    assert svg.count("AlexNet") == 1 and all(f"{one.step_ms:.0f} ms" in svg for one in rows)


def row(approach: str, step: float, **parts: float) -> Row:
    times = {**dict.fromkeys(DATA_CATEGORIES, 1.0), **parts}
    return Row(
        approach=approach, model="AlexNet", devices=2, step_ms=step, step_ms_q1=step - 1, step_ms_q3=step + 1,
        to_master=1.0, batch_bytes=1, hidden_share=0.0, parameter_bytes=1, wrong=0, **times,
    )  # fmt: skip


def test_it_says_which_idea_does_not_shorten_a_step_and_why() -> None:
    rows = [row("master", 50.0, peer_to_peer_ms=5.0), row("splitting", 46.0, peer_to_peer_ms=0.0)]
    assert sentences(rows) == ["Each idea makes the step shorter with every network."]
    rows += [row("pre_loading", 46.5, host_to_device_ms=0.5), row("ddp_gloo", 99.0)]
    rows += [row("three_in_one", 56.5, host_to_device_ms=0.5, broadcast_ms=0.4, reduce_ms=11.0, compute_ms=1.05)]
    assert sentences(rows) == [
        "AlexNet: pre_loading takes 0.5 ms a step longer than splitting, which is within the spread of the rounds. "
        "HtoD takes 0.5 ms less, but PtoP 1.0 ms more.",
        "AlexNet: three_in_one takes 10.0 ms a step longer than pre_loading. broadcast takes 0.6 ms less, but reduce "
        "10.0 ms more.",
    ]


@pytest.mark.long  # twelve ranks import torch
@pytest.mark.needs("a lab")
def test_rows_through_the_command_line(tmp_path: Path) -> None:
    file, picture = tmp_path / "rows.json", tmp_path / "steps.svg"
    words = ("-n", 2, "--batch", 2, "--models", "MobileNet v2", "--rounds", 3, "--steps", 1)
    done = bench("data", *words, "--json", file, "--draw", picture)
    assert done.returncode == 0, done.stderr
    rows = {one["approach"]: one for one in json.loads(file.read_text())}
    assert list(rows) == list(APPROACHES) and picture.read_text().startswith("<?xml")
    payload = 4 * (4 * 3 * 64 * 64 + 8)  # images and labels
    for name, one in rows.items():
        # A master's own part stays where it is; the other half goes a second way. A frame of 1514 bytes carries 1448.
        wanted = payload * (1.5 if name == "master" else 1)
        assert wanted < one["batch_bytes"] < 1.1 * wanted, name
        assert one["wrong"] == 0 and one["step_ms"] > 0, name
        assert (one["peer_to_peer_ms"] > 0) == (name == "master")
        assert 0 <= one["hidden_share"] <= 1
    assert all(rows[name]["hidden_share"] == 0 for name in ("master", "splitting", "ddp_gloo", "horovod_fp16"))


def test_an_unknown_network_is_refused() -> None:
    assert "LeNet" in refused("data", "--models", "LeNet")
