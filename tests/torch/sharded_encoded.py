"""A rank on one of several machines: a sharded optimizer whose parameters are encoded between them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
import torch.distributed as dist
from torch import Tensor, nn

from paceline.torch import ShardedOptimizer

SHAPE = (300, 200)
"""Of each of the parameters, large enough that their bucket is encoded."""

LOSSES = {"none": 0.0, "lossless": 0.0, "fp16": 1e-3, "three_in_one": 0.04, "int8": 0.01}
"""What an element may lose of the largest one."""


def parameters() -> nn.ParameterList:
    random = torch.Generator().manual_seed(1)
    return nn.ParameterList(torch.randn(SHAPE, generator=random) for _ in range(3))


def add_gradients(tensors: list[Tensor], step: int) -> None:
    """Whole numbers, whose mean is exact."""
    random = torch.Generator().manual_seed(step)
    for tensor in tensors:
        (tensor * torch.randint(-8, 8, SHAPE, generator=random)).sum().backward()


def same_everywhere(tensor: Tensor) -> bool:
    everybodys = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(everybodys, tensor.detach())
    return all(torch.equal(one, everybodys[0]) for one in everybodys)


def check_what_bf16_leaves() -> None:
    """All ranks, the owner too, see the exact parameters rounded to bf16; nothing that is lost adds up."""
    seen, exact = parameters(), list(parameters())
    optimizer = ShardedOptimizer(seen.parameters(), torch.optim.AdamW, codec="bf16", lr=1e-4)
    plain = torch.optim.AdamW(exact, lr=1e-4)
    for step in range(6):
        for one, tensors in ((optimizer, list(seen)), (plain, exact)):
            one.zero_grad()
            add_gradients(tensors, step)
            one.step()
        for ours, theirs in zip(seen, exact, strict=True):
            assert torch.equal(ours, theirs.bfloat16().float())
        if step == 2:
            with torch.no_grad():
                for ours, theirs in zip(seen, exact, strict=True):
                    theirs.copy_(torch.where(ours.abs() > 1, ours.clamp(-1, 1), theirs))
                    ours.clamp_(-1, 1)
    optimizer.consolidate_state_dict(None)
    saved = optimizer.state_dict()
    kept = [saved["state"][number]["exact_parameter"] for number in range(3)]
    for ours, theirs in zip(kept, exact, strict=True):
        torch.testing.assert_close(ours, theirs.detach(), rtol=0, atol=0)
    optimizer.close()

    loaded = parameters()
    optimizer = ShardedOptimizer(loaded.parameters(), torch.optim.AdamW, codec="bf16", lr=1e-4)
    loaded.load_state_dict(seen.state_dict())
    optimizer.load_state_dict(saved)
    for one, tensors in ((optimizer, list(loaded)), (plain, exact)):
        one.zero_grad()
        add_gradients(tensors, 9)
        one.step()
    assert all(torch.equal(ours, theirs.bfloat16().float()) for ours, theirs in zip(loaded, exact, strict=True))
    optimizer.close()


def check_others(codec: str, most: float) -> None:
    seen, exact = parameters(), list(parameters())
    optimizer = ShardedOptimizer(seen.parameters(), torch.optim.SGD, codec=codec, lr=0.01, momentum=0.9)
    plain = torch.optim.SGD(exact, lr=0.01, momentum=0.9)
    for step in range(3):
        for one, tensors in ((optimizer, list(seen)), (plain, exact)):
            one.zero_grad()
            add_gradients(tensors, step)
            one.step()
        for ours, theirs in zip(seen, exact, strict=True):
            assert same_everywhere(ours)
            assert float((ours - theirs).abs().max()) <= most * float(theirs.abs().max())
    assert most == 0 or not all(torch.equal(ours, theirs) for ours, theirs in zip(seen, exact, strict=True))
    optimizer.close()


def check_gradients() -> None:
    """After many steps with the same gradients as little is lost as after the first: what was lost comes later."""
    seen, start = parameters(), list(parameters())
    optimizer = ShardedOptimizer(seen.parameters(), torch.optim.SGD, gradient_codec="int8", lr=1.0)
    add_gradients(start, 0)
    lost = []
    for step in range(1, 13):
        optimizer.zero_grad()
        add_gradients(list(seen), 0)
        optimizer.step()
        pairs = zip(seen, start, strict=True)
        lost.append(max(float((now - first + step * _gradient(first)).abs().max()) for now, first in pairs))
    assert 1e-3 < lost[0] < 0.1 and max(lost) <= 3 * lost[0] + 1e-4, lost
    kept = optimizer.residuals.state_dict()
    assert set(kept) == {"0", "1", "2"} and any(bool(residual.any()) for residual in kept.values())
    # What was lost of a gradient that does not come waits for the next one.
    optimizer.zero_grad()
    add_gradients([seen[1]], 1)
    optimizer.step()
    assert all(torch.equal(optimizer.residuals.state_dict()[name], kept[name]) for name in ("0", "2"))
    changed = torch.tensor([not torch.equal(optimizer.residuals.state_dict()["1"], kept["1"])], dtype=torch.uint8)
    dist.all_reduce(changed, dist.ReduceOp.MAX)  # a rank of which nothing is encoded has lost nothing
    assert changed
    optimizer.residuals.load_state_dict(kept)
    assert all(torch.equal(optimizer.residuals.state_dict()[name], kept[name]) for name in kept)
    optimizer.close()


def _gradient(tensor: Tensor) -> Tensor:
    assert tensor.grad is not None
    return tensor.grad


def main() -> None:
    dist.init_process_group("paceline")
    check_what_bf16_leaves()
    check_gradients()
    for codec, most in LOSSES.items():
        check_others(codec, most)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
