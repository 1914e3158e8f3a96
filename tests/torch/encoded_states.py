"""States that a training gets into while its gradients are encoded between two machines: NaN, missing ones, skipped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from paceline.torch import GradientBuckets, ShardedOptimizer

SIZES = {"a": 30001, "b": 7, "c": 30005}
"""Elements of parameters; none ends with a line of memory."""
CODECS = ("int8", "int4", "bf16")


def net() -> nn.ParameterDict:
    return nn.ParameterDict({name: nn.Parameter(torch.zeros(size)) for name, size in SIZES.items()})


def ways(parameters: nn.ParameterDict, codec: str) -> Iterator[GradientBuckets | ShardedOptimizer]:
    yield GradientBuckets(parameters, codec=codec)
    for of_parameters in (None, codec):
        yield ShardedOptimizer(
            parameters.parameters(), torch.optim.SGD, lr=0.1, gradient_codec=codec, codec=of_parameters
        )


def backward(parameters: nn.ParameterDict, factor: float) -> None:
    torch.stack([(one * factor).sum() for one in parameters.values()]).sum().backward()


def check_a_nan_spoils_one_step() -> None:
    for codec in CODECS:
        for bad in (float("nan"), float("inf")):
            parameters = net()
            for one in ways(parameters, codec):
                finite = []
                for step in range(4):
                    parameters.zero_grad()
                    backward(parameters, bad if step == 1 else 1.0)
                    finite.append(all(bool(p.grad.isfinite().all()) for p in parameters.values()))
                assert finite == [True, False, True, True], (codec, type(one).__name__, finite)
                one.close()


def error(parameters: nn.ParameterDict, one: GradientBuckets | ShardedOptimizer, factor: float, seed: int) -> float:
    """Of this rank's part of the mean of random gradients with a deviation of `factor`, relative to that."""
    rank, size = dist.get_rank(), dist.get_world_size()
    drawn = [
        [torch.randn(count, generator=torch.Generator().manual_seed(10 * seed + other)) for count in SIZES.values()]
        for other in range(size)
    ]
    given = zip(parameters.values(), drawn[rank], strict=True)
    torch.stack([(parameter * factor * values).sum() for parameter, values in given]).sum().backward()
    found = torch.cat([p.grad for p in parameters.values()])
    wrong = found / factor - torch.stack([torch.cat(values) for values in drawn]).mean(0)
    whole = isinstance(one, GradientBuckets)
    return float((wrong if whole else wrong[: found.numel() // 2 - 100 if rank == 0 else 0]).square().mean().sqrt())


def check_a_skipped_step_leaves_nothing() -> None:
    for none in (True, False):
        parameters = net()
        for one in ways(parameters, "int8"):
            optimizer = one if isinstance(one, ShardedOptimizer) else torch.optim.SGD(parameters.parameters(), 0.1)
            ordinary = 0.0
            for step in range(6):
                parameters.zero_grad(set_to_none=none)
                explodes = step in (2, 3)
                wrong = error(parameters, one, 1e6 if explodes else 1.0, step)
                ordinary = max(ordinary, wrong if step < 2 else 0)
                assert not wrong > 3 * ordinary, (type(one).__name__, none, step, wrong, ordinary)
                if not explodes:
                    optimizer.step()
            one.close()


def check_feedback_within_a_step_stays() -> None:
    """Several passes whose gradients add up are one step, and no step is needed for what was lost to count."""
    parameters = net()
    buckets = GradientBuckets(parameters, codec="int8")
    optimizer = torch.optim.SGD(parameters.parameters(), 0.1)
    error(parameters, buckets, 1.0, 0)
    optimizer.step()
    for _ in range(2):
        error(parameters, buckets, 1.0, 1)
        assert not any(bucket.history.undone for bucket in buckets._buckets)
    kept = buckets.state_dict()
    assert any(part.any() for part in kept.values())
    buckets.load_state_dict({})
    assert not any(part.any() for part in buckets.state_dict().values())
    buckets.load_state_dict(kept)
    assert all(torch.equal(part, kept[name]) for name, part in buckets.state_dict().items())
    buckets.reset_residuals()
    assert not any(part.any() for part in buckets.state_dict().values())
    buckets.close()


def check_who_has_a_gradient_is_never_encoded(rank: int) -> None:
    """Gradients are so large that what is one beside them would vanish. PACELINE_COMPRESS is int8 here."""
    nets: Any = nn.ModuleDict({name: nn.Linear(200, 200, bias=False) for name in ("both", "one", "none")})
    buckets = GradientBuckets(nets)
    x = torch.ones(4, 200)
    loss = nets["both"](x) + (nets["one"](x) if rank == 0 else 0)
    (loss * 1e6).sum().backward()
    assert nets["one"].weight.grad is not None and nets["one"].weight.grad.mean() > 1e5
    assert nets["none"].weight.grad is None
    buckets.close()


def main() -> None:
    os.environ["PACELINE_MACHINE"] = "ab"[int(os.environ["RANK"])]
    os.environ["PACELINE_COMPRESS"] = "int8"
    dist.init_process_group("paceline")
    check_a_nan_spoils_one_step()
    check_a_skipped_step_leaves_nothing()
    check_feedback_within_a_step_stays()
    check_who_has_a_gradient_is_never_encoded(dist.get_rank())
    dist.destroy_process_group()


main()
