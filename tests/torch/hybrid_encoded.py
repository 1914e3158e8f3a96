"""Trains two partitions, then two replicas, on two machines between which activations and gradients are encoded."""

from __future__ import annotations

import os
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import paceline.torch
from paceline.group import codecs
from paceline.torch.partitioned import codecs as own_codecs
from paceline.torch.partitioned.predicted import predict as partitioned
from paceline.torch.residuals import Residuals

WIDTH, LENGTH, SAMPLES, MICROBATCHES = 128, 4, 9, 4
"""A sample of what crosses a cut has 2 KiB, and microbatches have 3, 2, 2 and 2."""
LEAST = 5 << 10
"""Bytes from which cuts are encoded here, so that some microbatches are and others are not."""
ENDS = [2, 5, 6, 8]


class Encoded(torch.autograd.Function):
    """What the next machine gets of an activation, and this one of its gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, codec: str) -> Tensor:
        ctx.codec = codec
        return there(tensor, codec)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return there(gradient, ctx.codec), None


def there(tensor: Tensor, codec: str) -> Tensor:
    values = tensor.detach().contiguous().numpy()
    return torch.from_numpy(codecs.decode(codecs.encode(values, codec), codec, values.size)).view(tensor.shape)


def made() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(WIDTH, WIDTH), nn.Tanh())))


def data(seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    one, other = torch.randn(2, SAMPLES, LENGTH, WIDTH, generator=generator)
    return one, other


def serial(codec: str | None, ends: list[int], far: list[int]) -> list[Tensor]:
    """Gradients of two steps, with what crosses the cuts behind these stages encoded."""
    model = made()
    for seed in range(2):
        for x, target in zip(*(one.tensor_split(MICROBATCHES) for one in data(seed)), strict=True):
            value: Any = x
            for place, layer in enumerate(model, 1):
                value = layer(value)
                if codec is not None and value.nbytes >= LEAST and place in [ends[stage] for stage in far]:
                    value = Encoded.apply(value, codec)  # type: ignore[no-untyped-call]
            (nn.functional.mse_loss(value, target) * (len(x) / SAMPLES)).backward()
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def partitions(schedule: str, codec: str, ends: list[int], far: list[int]) -> None:
    """Gradients have the bits of a model that encodes where the machines are others."""
    with patch.object(partitioned, "cut", lambda *_: ends), patch.object(own_codecs, "ENCODED_FROM", LEAST):
        hybrid = paceline.torch.hybrid(
            made(),
            data(0)[0],
            nn.functional.mse_loss,
            partitions=2,
            microbatches=MICROBATCHES,
            schedule=schedule,
            cut_codec=codec,
        )
        for seed in range(2):
            hybrid.step(*data(seed))
    expected = dict(zip((name for name, _ in made().named_parameters()), serial(codec, ends, far), strict=True))
    for name, parameter in hybrid.named_parameters():
        assert parameter.grad is not None
        assert torch.equal(parameter.grad, expected[name]), (schedule, codec, name)
    hybrid.close()


def replicas(codec: str, error: float) -> None:
    def made_hybrid() -> Any:
        one = paceline.torch.hybrid(
            made(), data(0)[0], nn.functional.mse_loss, partitions=1, microbatches=1, gradient_codec=codec
        )
        assert (one.partitions, one.replicas) == (1, 2)
        return one

    def step(one: Any, number: int) -> list[Tensor]:
        one.zero_grad()
        one.step(*data(2 * number + one.replica))
        return [parameter.grad.clone() for parameter in one.parameters()]

    def mean(number: int) -> list[Tensor]:
        model = made()
        for replica in range(2):
            x, target = data(2 * number + replica)
            (nn.functional.mse_loss(model(x), target) / 2).backward()
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    hybrid = made_hybrid()
    assert all(not part.any() for part in hybrid.residuals().values())
    for number in range(3):
        found = step(hybrid, number)
        for grad, right in zip(found, mean(number), strict=True):
            everyone = [torch.empty_like(grad) for _ in range(2)]
            dist.all_gather(everyone, grad)
            assert torch.equal(*everyone)
            assert (grad - right).abs().max() <= error * right.abs().max()
    assert not all(torch.equal(one, other) for one, other in zip(found, mean(2), strict=True))
    state = hybrid.residuals()
    assert set(state) == {name for name, _ in made().named_parameters()}
    assert all(part.any() for part in state.values())
    again, fresh = made_hybrid(), made_hybrid()
    again.load_residuals(state)
    bits, same, other = (step(one, 3) for one in (hybrid, again, fresh))
    assert all(torch.equal(*pair) for pair in zip(bits, same, strict=True))
    assert not all(torch.equal(*pair) for pair in zip(bits, other, strict=True))
    for one in (hybrid, again, fresh):
        one.close()


def skipped(none: bool) -> None:
    """What was lost in steps that the optimizer skipped does not come back; what stays in gradients does."""
    one = paceline.torch.hybrid(
        made(), data(0)[0], nn.functional.mse_loss, partitions=1, microbatches=2, gradient_codec="int8"
    )
    optimizer = torch.optim.SGD(one.parameters(), 0.1)
    kept: dict[str, Tensor] = {}
    with patch.object(Residuals, "forget", autospec=True, side_effect=Residuals.forget) as forget:
        for number, explodes in enumerate((False, False, True, True, False)):
            optimizer.zero_grad(set_to_none=none)
            for _ in range(2):
                one.step(data(number)[0], data(number)[1] * (1e12 if explodes else 1.0))
            largest = max(float(part.abs().max()) for part in one.residuals().values())
            assert (largest > 1) == explodes
            assert forget.call_count == max(0, number - 2)
            if not explodes:
                optimizer.step()
                kept = one.residuals()
    assert any(part.any() for part in kept.values())
    one.reset_residuals()
    assert not any(part.any() for part in one.residuals().values())
    one.close()


def main() -> None:
    os.environ["PACELINE_MACHINE"] = f"machine-{os.environ['RANK']}"
    torch.set_num_threads(1)
    dist.init_process_group("paceline")
    partitions("1F1B", "fp16", [4, 8], [0])
    partitions("ZBVZeroBubble", "bf16", ENDS, [0, 2])  # the second cut is within a machine
    partitions("Interleaved1F1B", "int8", ENDS, [0, 1, 2])
    assert not np.array_equal(serial("int8", [4, 8], [0])[0], serial(None, [4, 8], [0])[0])
    replicas("int8", 0.05)
    skipped(none=True)
    skipped(none=False)
    for options, words in (
        ({"cut_codec": "lossless"}, "the codecs of cuts are bf16, fp16, int8: found 'lossless'"),
        ({"gradient_codec": "zip"}, "the codecs of gradients are bf16, .*: found 'zip'"),
    ):
        with pytest.raises(paceline.torch.HybridError, match=words):
            paceline.torch.hybrid(made(), data(0)[0], nn.functional.mse_loss, partitions=2, **options)  # type: ignore[arg-type]
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
