"""What ranks check of named tensors that are encoded between machines."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn

from paceline.torch.residuals import Residuals

CALLS = 8
LARGE = 30_000
"""Elements of a tensor that is encoded even if it is carried out alone."""


def values(rank: int, name: str, numel: int = LARGE) -> Tensor:
    return torch.randn(numel, generator=torch.Generator().manual_seed(1000 * rank + len(name)))


def everyone_has(found: Tensor) -> None:
    import paceline.horovod.torch as hvd

    rows = hvd.allgather(found.flatten()[None])
    assert all(torch.equal(row, rows[0]) for row in rows)


def any_codec(rank: int, size: int) -> None:
    """Each in its own order: within the codec's loss of the sum, and exact where there is none."""
    import paceline.horovod.torch as hvd
    from paceline.horovod.torch.allreduce_requests import start

    names = [f"{codec} {'-' * number}" for codec in ("int8", "three_in_one", "none") for number in range(3)]
    tensors = {name: values(rank, name) for name in names}
    handles = {}
    for name in names[rank:] + names[:rank]:
        codec = name.split()[0]
        handles[name] = start(
            [tensors[name]],
            True,
            hvd.Sum,
            name,
            1.0,
            1.0,
            hvd.global_process_set,
            codec=codec if codec != "none" else None,
        )
    for name in names:
        hvd.synchronize(handles[name])
        parts = torch.stack([values(other, name) for other in range(size)]).double()
        off = float((tensors[name].double() - parts.sum(0)).abs().max())
        most = float(parts.abs().sum(0).max())
        loss = {"int8": 1 / 127, "three_in_one": 1 / 64, "none": 1e-6}[name.split()[0]]
        assert off <= (size + 1) * loss * most, name
        assert name.startswith("none") or off > 1e-4, name  # it was encoded
        everyone_has(tensors[name])


def calls(rank: int, size: int) -> None:
    """Calls of every kind and their gradients; only sums and means of float32 are encoded."""
    import paceline.horovod.torch as hvd

    codec = hvd.Compression.int8
    mine = [values(rank, "a"), values(rank, "ab", 99_000).view(990, 100)]
    for given, result in zip(mine, hvd.grouped_allreduce(mine, compression=codec), strict=True):
        exact = (
            torch.stack([values(o, "a" * (1 + (given.dim() > 1)), given.numel()) for o in range(size)]).double().mean(0)
        )
        assert 1e-4 < (result.double().flatten() - exact).abs().max() < 0.2
    for plain in (torch.arange(LARGE) + rank, torch.arange(float(LARGE), dtype=torch.float64) + rank):
        assert torch.equal(hvd.allreduce(plain, op=hvd.Sum, compression=codec), plain * size + 3 - 3 * rank)
    largest = torch.full((LARGE,), 0.1 + rank)
    assert torch.equal(hvd.allreduce(largest, op=hvd.Max, compression=codec), torch.full((LARGE,), 0.1 + size - 1))
    rows = values(rank, "rows")[:, None].requires_grad_()
    part = hvd.reducescatter(rows, op=hvd.Sum, compression=hvd.Compression.three_in_one)
    own = slice(LARGE // size * rank, LARGE // size * (rank + 1))
    exact = torch.stack([values(other, "rows")[own] for other in range(size)]).double().sum(0)
    assert part.shape == (LARGE // size, 1) and 1e-4 < (part.double().flatten() - exact).abs().max() < 0.5
    part.sum().backward()
    assert rows.grad is not None and (rows.grad == size).all()
    x = values(rank, "x").requires_grad_()
    hvd.allreduce(x, op=hvd.Sum, compression=codec).backward(torch.ones(LARGE))
    assert x.grad is not None and (x.grad - size).abs().max() < 0.1


class Net(nn.Module):
    """Some gradients are encoded even alone, others only if they are carried out with more."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layers = nn.Sequential(*(nn.Linear(200, 200) for _ in range(2)), nn.Linear(200, 60), nn.Linear(60, 60))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x)
        return result


def backward(net: Net, rank: int) -> None:
    x = torch.randn(8, 200, generator=torch.Generator().manual_seed(rank))
    net(x).square().mean().backward()


def feedback(rank: int, size: int, codec: str, groups: int) -> None:
    """The mean of many steps with the same gradients comes as close as one step's loss divided by their number."""
    import paceline.horovod.torch as hvd

    exact = [torch.zeros_like(p, dtype=torch.float64) for p in Net().parameters()]
    for other in range(size):
        net = Net()
        backward(net, other)
        for total, p in zip(exact, net.parameters(), strict=True):
            assert p.grad is not None
            total += p.grad.double() / size
    net = Net()
    optimizer: Any = hvd.DistributedOptimizer(
        torch.optim.SGD(net.parameters(), lr=0.0),
        net.named_parameters(),
        compression=getattr(hvd.Compression, codec),
        groups=groups,
    )
    totals = [torch.zeros_like(total) for total in exact]
    worst = []
    for step in range(CALLS):
        optimizer.zero_grad()
        backward(net, rank)
        optimizer.step()
        for total, p in zip(totals, net.parameters(), strict=True):
            assert p.grad is not None
            total += p.grad
            if step == 0:
                everyone_has(p.grad)
        worst.append(max(float((t / (step + 1) - e).abs().max()) for t, e in zip(totals, exact, strict=True)))
    assert worst[-1] <= 3 * max(worst) / CALLS, worst
    last = max(float((p.grad - e).abs().max()) for p, e in zip(net.parameters(), exact, strict=True))
    assert last > max(worst) / 10  # it is encoded in every step
    state = optimizer.residuals.state_dict()
    assert set(state) == {name for name, _ in net.named_parameters()}
    lost = hvd.allreduce(torch.tensor([float(sum(part.abs().sum() for part in state.values()))]), op=hvd.Sum)
    assert lost.item() > 0


def skipped(rank: int, none: bool) -> None:
    """What was lost in steps that were skipped does not come back; what stays in gradients does."""
    import paceline.horovod.torch as hvd

    net, x = Net(), values(rank, "x", 1600).view(8, 200)
    optimizer: Any = hvd.DistributedOptimizer(
        torch.optim.SGD(net.parameters(), lr=0.0), net.named_parameters(), compression=hvd.Compression.int8
    )
    with patch.object(Residuals, "reset", autospec=True, side_effect=Residuals.reset) as reset:
        for step, factor in enumerate((1.0, 1.0, 1e12, 1e12, 1.0)):
            optimizer.zero_grad(set_to_none=none)
            for _ in range(2):
                (net(x).square().mean() * factor).backward()
                optimizer.synchronize()
            largest = max(float(part.abs().max()) for part in optimizer.residuals.state_dict().values())
            assert largest == 0 or (largest > 1) == (factor > 1)  # a rank that encodes nothing loses nothing
            assert reset.call_count == max(0, step - 2)
            if factor == 1:
                with optimizer.skip_synchronize():
                    optimizer.step()


def disagreement(rank: int, size: int) -> None:
    """Everybody is told who asked for what, and everything else goes on."""
    import paceline.horovod.torch as hvd

    compression = [hvd.Compression.int8, hvd.Compression.none, hvd.Compression.three_in_one][rank]
    with pytest.raises(hvd.HorovodInternalError) as caught:
        hvd.allreduce(torch.ones(9), name="loss", op=hvd.Sum, compression=compression)
    for words in ('"allreduce.loss"', "rank 0 gave all_reduce float32 9 SUM as int8", "SUM as three_in_one"):
        assert words in str(caught.value), str(caught.value)
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == size


def uneven(rank: int, size: int) -> None:
    """A rank that has joined gives zeros, and what it would lose is nothing."""
    import paceline.horovod.torch as hvd

    if rank:
        given = hvd.allreduce(
            torch.full((LARGE,), float(rank)), name="late", op=hvd.Sum, compression=hvd.Compression.int8
        )
        assert (given - 3).abs().max() < 0.1
    hvd.join()


def first_values(rank: int, size: int) -> None:
    """broadcast_parameters sends float32 as `lossless`, because PACELINE_COMPRESS says so; broadcast does not."""
    import paceline.horovod.torch as hvd
    from paceline.coordinate import Coordinator

    sent: list[str | None] = []
    send = Coordinator.broadcast

    def broadcast(*arguments: Any, codec: str | None = None, **others: Any) -> Any:
        sent.append(codec)
        return send(*arguments, codec=codec, **others)

    Coordinator.broadcast = broadcast  # type: ignore[method-assign]
    parameters = {"a": values(rank, "a"), "b": torch.arange(LARGE) + rank, "c": values(rank, "c").double()}
    hvd.broadcast_parameters(parameters, root_rank=1)
    assert sent == ["lossless", None, None]
    assert torch.equal(parameters["a"], values(1, "a")) and parameters["b"][0] == parameters["b"][-1] - LARGE + 1 == 1
    assert torch.equal(hvd.broadcast(values(rank, "d"), 1), values(1, "d")) and sent[3:] == [None]
    Coordinator.broadcast = send  # type: ignore[method-assign]


def check(rank: int, size: int) -> None:
    any_codec(rank, size)
    calls(rank, size)
    feedback(rank, size, "int8", 0)
    feedback(rank, size, "three_in_one", 2)
    skipped(rank, none=True)
    skipped(rank, none=False)
    disagreement(rank, size)
    uneven(rank, size)
