"""Jobs as users write them, through each face, with every result looked at."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from trials import Trial

COUNTS = (1, 5, 100, 3000, 20_000, 200_000)


class Face(Protocol):
    """A job's loop. `meet` returns once the ranks have met, `step` does as many collectives as it returns.

    store: that of torch through which they meet, where the trial has one.
    """

    def meet(self, trial: Trial, rank: int, size: int, store: object = None) -> None: ...

    def step(self, number: int, choice: random.Random) -> int: ...

    def goes_on(self, wanted: bool) -> bool:
        """Whether rank 0 wants to go on."""

    def close(self) -> None: ...


class Wrong(AssertionError):
    """A collective was over and its result was not what it should be."""


def equal(found: Any, right: Any, what: str) -> None:
    """Raise Wrong unless all elements are equal."""
    if not np.array_equal(np.asarray(found), np.broadcast_to(np.asarray(right), np.shape(found))):
        raise Wrong(f"{what}: found {np.asarray(found).ravel()[:8]}, right is {np.asarray(right).ravel()[:8]}")


class Raw:
    def meet(self, trial: Trial, rank: int, size: int, store: object = None) -> None:
        import paceline

        self._rank, self._size = rank, size
        self._group: Any = paceline.init()

    def step(self, number: int, choice: random.Random) -> int:
        group, rank, size = self._group, self._rank, self._size
        count, codec, root = choice.choice(COUNTS), choice.choice([None, None, "bf16"]), choice.randrange(size)
        ramp = (np.arange(count) % 5).astype(np.float32)
        total = sum(range(1, size + 1))
        mine, scaled = ramp + number % 7, [rank + 1.0, total]
        array = mine * np.float32(scaled[0])
        what = f"step {number}, {count} elements"
        match choice.randrange(7):
            case 0:
                group.all_reduce(array, codec=codec)
                equal(array, mine * total, f"all_reduce of {what}")
            case 1:
                everything = np.empty(count * size, np.float32)
                group.all_gather(everything, array)
                equal(everything, np.outer(np.arange(1, size + 1), mine).ravel(), f"all_gather of {what}")
            case 2:
                group.broadcast(array, root)
                equal(array, mine * (root + 1), f"broadcast of {what}")
            case 3:
                part = np.empty(count, np.float32)
                group.reduce_scatter(part, np.tile(array, size))
                equal(part, mine * total, f"reduce_scatter of {what}")
            case 4:
                arrays = [mine * np.float32(rank + 1 + shift) for shift in range(3)]
                for operation in [group.all_reduce(each, async_op=True) for each in arrays]:
                    operation.wait()
                for shift, each in enumerate(arrays):
                    equal(each, mine * (total + size * shift), f"asynchronous all_reduce of {what}")
                return 3
            case 5:
                group.barrier()
            case 6:
                sent = group.send(array, (rank + 1) % size, async_op=True)
                got = np.empty_like(array)
                group.recv(got, (rank - 1) % size)
                sent.wait()
                equal(got, mine * ((rank - 1) % size + 1), f"message of {what}")
        return 1

    def goes_on(self, wanted: bool) -> bool:
        flag = np.array([wanted and self._rank == 0], np.float32)
        self._group.broadcast(flag, 0)
        return bool(flag[0])

    def close(self) -> None:
        self._group.close()


class Torch:
    """As in DDP: gradients in buckets, all of them under way at once."""

    def meet(self, trial: Trial, rank: int, size: int, store: object = None) -> None:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        self._rank, self._size, self._dist, self._torch = rank, size, dist, torch
        place = {} if store is None else {"store": store, "rank": rank, "world_size": size}
        dist.init_process_group("paceline", **place)
        self._group: Any = None

    def step(self, number: int, choice: random.Random) -> int:
        torch, dist = self._torch, self._dist
        total = sum(range(1, self._size + 1))
        counts = [choice.choice(COUNTS) for _ in range(choice.randrange(1, 5))]
        buckets = [torch.full((count,), float((self._rank + 1) * (number % 11 + 1))) for count in counts]
        for work in [dist.all_reduce(bucket, async_op=True) for bucket in buckets]:
            work.wait()
        for bucket in buckets:
            equal(bucket.numpy(), total * (number % 11 + 1), f"all_reduce of step {number}")
        root = choice.randrange(self._size)
        value = torch.full((choice.choice(COUNTS),), self._rank + number % 11)
        dist.broadcast(value, root)
        equal(value.numpy(), root + number % 11, f"broadcast of step {number}")
        if number % 10 == 3:
            self._group = dist.new_group(list(range(self._size)))
        if self._group is not None:
            gathered = [torch.empty(3) for _ in range(self._size)]
            dist.all_gather(gathered, torch.full((3,), float(self._rank)), group=self._group)
            equal(torch.stack(gathered).numpy()[:, 0], np.arange(self._size), f"all_gather of step {number}")
        return len(buckets) + 1

    def goes_on(self, wanted: bool) -> bool:
        flag = self._torch.tensor([float(wanted)])
        self._dist.broadcast(flag, 0)
        return bool(flag.item())

    def close(self) -> None:
        self._dist.destroy_process_group()


class Horovod:
    """Named requests, submitted in another order by each rank."""

    def meet(self, trial: Trial, rank: int, size: int, store: object = None) -> None:
        import torch

        import paceline.horovod.torch as hvd

        torch.set_num_threads(1)
        self._rank, self._size, self._hvd, self._torch = rank, size, hvd, torch
        self._order = random.Random(trial.seed * 31 + rank)
        hvd.init()

    def step(self, number: int, choice: random.Random) -> int:
        hvd, torch, factor = self._hvd, self._torch, number % 11 + 1
        total = sum(range(1, self._size + 1))
        root = choice.randrange(self._size)
        calls: list[tuple[str, Callable[[], Any], float]] = []
        for place in range(choice.randrange(1, 6)):
            tensor = torch.full((choice.choice(COUNTS),), float((self._rank + 1) * factor))
            calls.append((f"sum {place}", self._sum(tensor, f"sum {place}"), total * factor))
        tensor = torch.full((choice.choice(COUNTS),), float(self._rank + factor))
        calls.append(("broadcast", lambda: hvd.broadcast_async(tensor, root, name="broadcast"), root + factor))
        self._order.shuffle(calls)
        handles = [(what, submit(), right) for what, submit, right in calls]
        self._order.shuffle(handles)
        for what, handle, right in handles:
            equal(hvd.synchronize(handle).numpy(), right, f"{what} of step {number}")
        return len(calls)

    def _sum(self, tensor: Any, name: str) -> Callable[[], Any]:
        return lambda: self._hvd.allreduce_async(tensor, name=name, op=self._hvd.Sum)

    def goes_on(self, wanted: bool) -> bool:
        flag = self._torch.tensor([float(wanted)])
        return bool(self._hvd.broadcast(flag, 0, name="goes on").item())

    def close(self) -> None:
        self._hvd.shutdown()


class Hybrid:
    """Two replicas of a model in two partitions."""

    def meet(self, trial: Trial, rank: int, size: int, store: object = None) -> None:
        import torch
        import torch.distributed as dist
        from torch import nn

        import paceline.torch

        torch.set_num_threads(1)
        torch.manual_seed(trial.seed)
        self._rank, self._torch, self._dist = rank, torch, dist
        dist.init_process_group("paceline")
        self._batch = torch.randn(8, 16)
        model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(4)))
        self._hybrid = paceline.torch.hybrid(
            model, self._batch, nn.functional.mse_loss, partitions=2, replicas=2, microbatches=4
        )

    def step(self, number: int, choice: random.Random) -> int:
        self._hybrid.step(self._batch, self._batch)
        return 1

    def goes_on(self, wanted: bool) -> bool:
        flag = self._torch.tensor([float(wanted)])
        self._dist.broadcast(flag, 0)
        return bool(flag.item())

    def close(self) -> None:
        self._dist.destroy_process_group()


def store_client(seconds: float) -> object:
    """A client of the trial's own store of torch, where it has one."""
    if not (port := os.environ.get("CAMPAIGN_STORE")):
        return None
    from datetime import timedelta

    import torch.distributed as dist

    patience = timedelta(seconds=seconds)
    return dist.TCPStore("127.0.0.1", int(port), is_master=False, wait_for_workers=False, timeout=patience)


MADE: dict[str, Callable[[], Face]] = {"raw": Raw, "torch": Torch, "horovod": Horovod, "hybrid": Hybrid}
