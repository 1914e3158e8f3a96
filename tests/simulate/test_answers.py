"""Networks, models, answers and studies of the simulator."""

from __future__ import annotations

import pytest

from paceline.plan.choose import pick
from paceline.plan.cost import cost
from paceline.simulate import Compute, Job, answer, models, study
from paceline.simulate.job import FUSION_BYTES, in_order
from paceline.simulate.network import FOLLOWED_RANKS, machine_of, transfer, uniform
from paceline.simulate.programs import all_reduce
from paceline.topology import Link, parse

LINK = Link(1.25e9, 1.25e9, 50e-6)


def test_models_have_the_weights_that_their_papers_give() -> None:
    elements = {name: sum(each.elements for each in models.model(name).gradients) for name in models.names()}
    assert elements["ResNet-50"] == 25_557_032  # torchvision's resnet50
    assert elements["VGG16"] == 138_357_544
    assert elements["AlexNet"] == 61_100_840
    assert elements["BERT-base"] == 109_482_240  # Hugging Face's bert-base-uncased
    assert elements["BERT-large"] == 335_141_888
    assert elements["ViT-B/16"] == 86_567_656  # torchvision's vit_b_16
    assert elements["ViT-L/16"] == 304_326_632
    assert elements["ViT-H/14"] == 632_045_800
    assert elements["Llama-2-7B"] == 6_738_415_616
    assert elements["Llama-2-13B"] == 13_015_864_320
    assert elements["Llama-2-70B"] == 68_976_648_192
    assert elements["Llama-3-8B"] == 8_030_261_248
    assert elements["Llama-3-70B"] == 70_553_706_496
    for name in models.names():
        ready = [each.ready for each in models.model(name).gradients]
        assert ready == sorted(ready)
        assert ready[-1] == 1.0


def test_a_model_is_found_by_any_spelling() -> None:
    assert models.model("vit b16") == models.model("ViT-B/16")
    assert models.model("resnet50") == models.model("ResNet-50") == models.model("RESNET_50")
    with pytest.raises(ValueError, match=r"choose one of .*ResNet-50"):
        models.model("resnet51")


def test_a_transfer_takes_what_its_messages_take() -> None:
    topology = uniform(5, 3, LINK)
    for nbytes, seconds in transfer(topology).all_reduce:
        assert seconds == all_reduce(pick("all_reduce", topology, int(nbytes)), topology, int(nbytes)).seconds
    assert machine_of(topology) == (0, 0, 0, 1, 1)
    assert transfer(topology, "ring").algorithm == "ring"


def test_a_transfer_of_many_ranks_takes_what_the_cost_model_says() -> None:
    topology = uniform(FOLLOWED_RANKS + 1, 8, LINK)
    for nbytes, seconds in transfer(topology).all_reduce:
        assert seconds == cost(pick("all_reduce", topology, int(nbytes)).outline, topology, int(nbytes)).seconds


def test_one_machine_is_refused() -> None:
    with pytest.raises(ValueError, match="two machines or more"):
        transfer(parse("name: one\nchildren: [{machine: alpha, ranks: 4, uplink: 1 Gbit/s}]"))


def test_an_answer_has_an_interval_and_shares_that_add_up() -> None:
    topology = uniform(8, 2, LINK)
    what = in_order(
        Job(
            machine_of=machine_of(topology),
            gradients=models.model("ResNet-18").gradients,
            policy="board",
            compute=Compute(seconds=0.1, delay=0.005),
            transfer=transfer(topology),
        )
    )
    found = answer(what, counted=5, replicas=2)
    assert found.algorithm == pick("all_reduce", topology, FUSION_BYTES).name
    assert found.low <= found.step.seconds <= found.high
    assert 0 < found.efficiency < 1
    assert sum(found.shares.values()) == pytest.approx(1.0)
    for bad in ({"counted": 0}, {"replicas": 0}):
        with pytest.raises(ValueError, match="at least 1 step"):
            answer(what, **bad)


PUBLISHED = "published-efficiency"
"""Its jobs of up to 1088 ranks take half a minute."""


@pytest.mark.verify
def test_published_efficiencies_follow_from_what_their_publications_tell() -> None:
    rows = study.run(study.load(PUBLISHED), lambda _: None)
    near = [row for row in rows if row.paper is not None and abs(row.simulated - row.paper) <= 10]
    assert len(near) >= 6 and not any(row.fitted for row in rows)
    assert all(row.why for row in rows if row not in near), "which fact is missing?"


@pytest.mark.parametrize("name", [name for name in study.names() if name != PUBLISHED])
def test_a_study_says_of_every_figure_whether_it_was_fitted(name: str) -> None:
    document = study.load(name)
    if "machines" not in document:
        document["ranks"] = [12, 24]
    found = study.run(document, lambda _: None, counted=2)
    assert len(found) == len(document["figures"])
    assert sum(row.fitted for row in found) <= 3
    assert not any(row.fitted and row.paper is None for row in found)
    assert document["paper"]


def test_an_unknown_study_names_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="summit-resnet50"):
        study.load("summit")
