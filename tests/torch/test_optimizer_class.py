"""The class of an optimizer that comes with some of its options."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.optim import SGD
from torch_ranks import Ranks

import paceline.torch
from paceline.torch.sharded.optimizer_class import class_and_options


def test_options_of_a_partial_are_defaults() -> None:
    given = partial(partial(SGD, lr=0.1, momentum=0.9), lr=0.2)
    assert class_and_options(given, {"weight_decay": 0.3}) == (SGD, {"lr": 0.2, "momentum": 0.9, "weight_decay": 0.3})
    assert class_and_options(given, {"lr": 0.4}) == (SGD, {"lr": 0.4, "momentum": 0.9})
    with pytest.raises(TypeError, match=r"a partial of an optimizer names its options: found \(1,\) without a name"):
        class_and_options(partial(SGD, 1), {})


def test_an_optimizer_is_no_class() -> None:
    made = SGD([nn.Parameter(torch.ones(2))], lr=0.1)
    with pytest.raises(TypeError, match=r"takes the class .*\(parameters, SGD, lr=0.1\), not one that"):
        class_and_options(made, {})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes the class of an optimizer, not None"):
        class_and_options(None, {})  # type: ignore[arg-type]


def check_sharded(rank: int, size: int) -> None:
    parameter = nn.Parameter(torch.ones(8))
    optimizer = paceline.torch.ShardedOptimizer([parameter], partial(SGD, lr=0.5))
    (parameter * 2).sum().backward()
    optimizer.step()
    assert parameter.eq(0.0).all()


def test_a_sharded_optimizer_takes_one(ranks: Ranks) -> None:
    ranks(check_sharded, 2)
