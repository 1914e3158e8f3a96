"""Data-parallel training without a wrapper: gradients lie in arena memory, where they are reduced in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch.distributed as dist
from torch import Tensor, nn

from paceline.torch.backward_exchange import BackwardExchange
from paceline.torch.bucket import BUCKET_BYTES, assign, ordered
from paceline.torch.compression import Compression
from paceline.torch.encoded_bucket import EncodedBucket
from paceline.torch.first_values import broadcast_values
from paceline.torch.freed_memory import keep_freed_memory
from paceline.torch.sharded.agreement import require_agreement
from paceline.torch.trained import Trained

if TYPE_CHECKING:
    from paceline.torch.data.weighted import Weighing


class GradientBuckets:
    """Makes every `backward` on `module` end with the mean gradients over the ranks of `group` (default: all).

        buckets = paceline.torch.GradientBuckets(model)
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss(model(inputs), targets).backward()
            optimizer.step()

    Each `p.grad` is a view of a bucket in the arena. A bucket is reduced while `backward` goes on, as soon as its
    gradients and those before it are there; buckets begin with the last parameters, and are full once they hold
    `bucket_bytes`. The constructor is a collective: parameters and buffers become rank 0's.

    With `batches`, the `Loader` or `Weighted` of `paceline.torch.data` that gives the batches, the mean is over all
    samples instead: each rank counts by the weight of its last batch. The loss must not be multiplied by it as well.

    With `codec`, gradients of float32 are encoded between machines, and with `error_feedback` each rank adds what that
    has lost in the next pass, as `paceline.torch.compress` does for DistributedDataParallel.

    A parameter without a gradient on some ranks counts as zero there and then has the mean everywhere; where no rank
    has one, it stays as it was. Parameters that begin to train later are refused. Buffers are not exchanged again, and
    on each rank `backward` must reach some parameter.

    Raises ValueError if a parameter that requires a gradient is not on the CPU, if there is none, or if ranks have
    different ones, of which shapes, dtypes and orders in memory are compared. `backward` raises what the collectives
    raise, TypeError for sparse gradients, and RuntimeError after a pass that did not finish, with create_graph=True,
    and, as the module's forward pass does, where a parameter trains that did not at the start.
    """

    def __init__(
        self,
        module: nn.Module,
        group: dist.ProcessGroup | None = None,
        *,
        bucket_bytes: int = BUCKET_BYTES,
        batches: Weighing | None = None,
        codec: str | None = None,
        error_feedback: bool = True,
    ) -> None:
        if not isinstance(module, nn.Module):
            raise TypeError(
                f"GradientBuckets takes the module whose gradients it reduces, not a {type(module).__name__}"
            )
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        if not parameters:
            raise ValueError("the module has no parameter that requires a gradient")
        if elsewhere := next((parameter.device for parameter in parameters if not parameter.is_cpu), None):
            raise ValueError(f"gradients in the arena are for parameters on the CPU, found one on {elsewhere}")
        _require_agreement(module, f"bucket_bytes={bucket_bytes}, codec={codec}", group)
        keep_freed_memory(sum(parameter.nbytes for parameter in parameters))
        named = {name: one for name, one in module.named_parameters() if one.requires_grad}
        self._trained = Trained(module, type(self).__name__)
        names = {id(one): f'the parameter "{name}"' for name, one in named.items()}
        self._exchange = BackwardExchange(group, type(self).__name__, lambda one: names[id(one)], self._trained.check)
        self._compression = Compression(self._exchange.channel, codec or "none", named if error_feedback else None)
        self._buckets = [
            _WeightedBucket(index, some, batches, self._compression)
            for index, some in enumerate(assign(reversed(parameters), bucket_bytes))
        ]
        for tensor in (*module.parameters(), *module.buffers()):
            broadcast_values(tensor, group)
        self._exchange.extend(self._buckets)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Each `backward` in this context only adds to this rank's gradients; the next one after it reduces them."""
        with self._exchange.paused():
            yield

    def state_dict(self) -> dict[str, Tensor]:
        """Return the encoding residuals on this rank, flat, by the parameter's name; empty without a codec."""
        return self._compression.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on with what `state_dict` returned on this rank, and nothing else.

        Raises ValueError if it is of another module.
        """
        self._compression.load_state_dict(state)

    def reset_residuals(self) -> None:
        """Forget what encoding has lost on this rank, as after steps that were undone.

        What was lost in a step that an optimizer skipped is forgotten anyway, if it has made another step before.
        """
        self._compression.reset_residuals()

    def close(self) -> None:
        """From here on `backward` reduces nothing. Gradients stay as they are."""
        self._trained.close()
        self._exchange.close()


class _WeightedBucket(EncodedBucket):
    """A bucket whose mean weighs the ranks. batches: what says how much this one counts; None for as much as others."""

    def __init__(
        self, index: int, parameters: Sequence[Tensor], batches: Weighing | None, compression: Compression
    ) -> None:
        super().__init__(index, parameters, compression)
        self._batches = batches

    def exchange(self, group: dist.ProcessGroup | None) -> dist.Work:
        if self._batches is not None and self._batches.weight:
            self.gradients.mul_(self._batches.weight)
        elif self._batches is not None:
            self.gradients.zero_()  # NaN times nothing would be NaN
        return super().exchange(group)


def _require_agreement(module: nn.Module, options: str, group: dist.ProcessGroup | None) -> None:
    named = dict(module.named_parameters())
    labels = ["the buckets", *(f'parameter "{name}"' for name in named)]
    require_agreement(
        [options, *(ordered(one) + ("" if one.requires_grad else ", frozen") for one in named.values())],
        lambda number: labels[number] if number < len(labels) else f"parameter {number - 1}",
        group,
    )
