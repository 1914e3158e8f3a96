"""A sharded optimizer (ZeRO stage 1): each rank keeps and updates its share of the optimizer's state."""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.graph import get_gradient_edge
from torch.optim import Optimizer
from torch.optim.optimizer import ParamsT

from paceline.torch.backward_exchange import BackwardExchange
from paceline.torch.bucket import BUCKET_BYTES, assign, ordered
from paceline.torch.first_values import broadcast_values
from paceline.torch.freed_memory import keep_freed_memory
from paceline.torch.residuals import Residuals
from paceline.torch.sharded import state
from paceline.torch.sharded.agreement import require_agreement
from paceline.torch.sharded.bucket import ShardBucket
from paceline.torch.sharded.clip import clip
from paceline.torch.sharded.element_wise import OptimizerClass, require_element_wise
from paceline.torch.sharded.optimizer_class import class_and_options
from paceline.torch.sharded.own_memory import require_own_memory
from paceline.torch.sharded.transfers import all_gather_of, reduce_scatter_of

_EXACT = "exact_parameter"
_NO_OPTIONS = ("params", "param_names")


class ShardedOptimizer(Optimizer):
    """An optimizer of `optimizer_class`, whose state and work the ranks of `group` (default: all) divide.

        optimizer = paceline.torch.ShardedOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3)
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss(model(inputs), targets).backward()
            optimizer.step()

    This is ZeRO's first stage (S. Rajbhandari, J. Rasley, O. Ruwase, Y. He, "ZeRO: Memory Optimizations Toward Training
    Trillion Parameter Models", SC 2020, section 5.1). Parameters and gradients lie in flat buckets in the arena, cut
    into one equal block for each rank. A bucket's gradients are reduce-scattered while `backward` goes on; `step`
    updates this rank's block, with state for it alone, and all-gathers the blocks in place. Parameters end as those of
    the plain optimizer on the mean gradients. There must be no DDP or GradientBuckets around the model.

    After `backward`, `p.grad` is the mean over the ranks only where this rank owns the parameter; use `clip_grad_norm_`
    of this class. Gradients that some or all ranks lack count as in GradientBuckets. The constructor and
    `add_param_group` are collectives: parameters become rank 0's; buffers of the model are left alone.

    params, defaults: as the wrapped class takes them, which may be a `functools.partial` of one. bucket_bytes: a bucket
    with more is full. codec: how updated parameters of float32 are encoded between machines, a name as in
    `paceline.Group.all_gather`, or None. All ranks then hold the same decoded parameters, and each rank keeps its part
    exact beside them, also in `state_dict`; with a lossy codec that takes two more parts. gradient_codec: the same for
    gradients of float32 on their way to their owners; each rank keeps what encoding has lost of them in `residuals`, as
    large as its gradients, and adds it in the next step. Save `residuals.state_dict()` on every rank.

    Raises ValueError if ranks have different parameters, if a parameter is not on the CPU, or if the wrapped class does
    not work element by element, as LAMB, Adafactor and Muon don't. `backward` raises what GradientBuckets' does, `step`
    RuntimeError for gradients that were not exchanged.
    """

    def __init__(
        self,
        params: ParamsT,
        optimizer_class: type[Optimizer] | partial[Optimizer],
        group: dist.ProcessGroup | None = None,
        *,
        bucket_bytes: int = BUCKET_BYTES,
        codec: str | None = None,
        gradient_codec: str | None = None,
        **defaults: object,
    ) -> None:
        wrapped, defaults = class_and_options(optimizer_class, defaults)
        self._group = group
        self._bucket_bytes = bucket_bytes
        self._codec = codec
        self._gradient_codec = gradient_codec
        self.residuals = Residuals({})
        """The encoding residuals of gradients on this rank, by the number of the parameter."""
        self._class = cast(OptimizerClass, wrapped)
        self._buckets: list[ShardBucket] = []
        self._local: Optimizer | None = None  # of this rank's pieces
        self._accumulators: list[object] = []  # autograd's, whose hooks end with them
        self._whole: dict[Tensor, dict[str, object]] | None = None
        name = weakref.WeakMethod(self._name)
        self._exchange = BackwardExchange(group, type(self).__name__, lambda one: name()(one))  # type: ignore[misc]
        weakref.finalize(self, self._exchange.close).atexit = False
        super().__init__(params, defaults)
        made = self._shard(self.param_groups)
        self._local = self._class(made, **defaults)
        self.defaults = self._local.defaults
        self._share_options(self._local.param_groups, self.param_groups)

    @property
    def local(self) -> Optimizer:
        """The wrapped optimizer, of what this rank owns of the parameters."""
        assert self._local is not None
        return self._local

    def add_param_group(self, param_group: dict[str, object]) -> None:
        """Optimize more parameters, as those that are no longer frozen. A collective."""
        super().add_param_group(param_group)
        if self._local is None:
            return  # the constructor takes all groups at once
        try:
            (mine,) = self._shard(self.param_groups[-1:])
        except BaseException:
            self.param_groups.pop()
            raise
        self._local.add_param_group(mine)
        self._whole = None

    def _shard(self, groups: Sequence[dict[str, object]]) -> list[dict[str, object]]:
        """The groups as the wrapped optimizer gets them."""
        named = [(parameter, index) for index, group in enumerate(groups) for parameter in _parameters(group)]
        for parameter, _ in named:
            if not parameter.is_cpu:
                raise ValueError(f"parameters in the arena are on the CPU, found one on {parameter.device}")
        require_own_memory({id(parameter): parameter for parameter, _ in named}.values())
        for group in groups:
            require_element_wise(self._class, {**self.defaults, **_options(group)})
        before = sum(len(group["params"]) for group in self.param_groups) - len(named)
        require_agreement(
            [
                self._class.__name__,
                f"bucket_bytes={self._bucket_bytes}, codec={self._codec}, gradient_codec={self._gradient_codec}",
                *(_describe(parameter, index) for parameter, index in named),
            ],
            lambda number: self._name(number - 2 + before) if number > 1 else ("the optimizer", "the buckets")[number],
            self._group,
        )
        keep_freed_memory(sum(parameter.nbytes for parameter, _ in named))
        rank, ranks = dist.get_rank(self._group), dist.get_world_size(self._group)
        indexes = dict(reversed(named))
        trained = [parameter for parameter in indexes if parameter.requires_grad]
        self.residuals.extend({str(before + at): parameter for at, (parameter, _) in enumerate(named)})
        members = assign(trained, self._bucket_bytes, lambda parameter: (indexes[parameter], parameter.dtype))
        pieces: list[list[Tensor]] = [[] for _ in groups]
        for parameters in members:
            dtype, number = parameters[0].dtype, len(self._buckets)
            bucket = ShardBucket(
                parameters,
                rank,
                ranks,
                reduce_scatter_of(self._exchange.channel, self._gradient_codec, dtype, self.residuals, number),
                all_gather_of(self._group, self._codec, dtype),
            )
            bucket.broadcast(self._group)
            self._buckets.append(bucket)
            pieces[indexes[parameters[0]]] += [piece.values for piece in bucket.pieces]
            for slot, parameter in enumerate(parameters):
                accumulator = get_gradient_edge(parameter).node
                accumulator.register_prehook(partial(_accumulates, bucket, slot))
                self._accumulators.append(accumulator)
        for parameter in indexes:
            if not parameter.requires_grad:
                broadcast_values(parameter, self._group)
        self._exchange.extend(self._buckets[-len(members) :] if members else [])
        return [{**_options(group), "params": own} for group, own in zip(groups, pieces, strict=True)]

    # -- training -----------------------------------------------------------------------------------------------

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Each `backward` in this context only adds to this rank's gradients; the next one after it exchanges them."""
        with self._exchange.paused():
            yield

    def close(self) -> None:
        """From here on `backward` exchanges nothing."""
        self._exchange.close()

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update the parameters on all ranks. A collective. closure: called once, before."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            self._gradients()
            for bucket in self._buckets:
                bucket.reclaim(self._name)
            self._whole = None
            self._share_options(self.param_groups, self.local.param_groups)
            self.local.step()
            self._share_options(self.local.param_groups, self.param_groups)
            works = [bucket.gather() for bucket in self._buckets]
            for bucket, work in zip(self._buckets, works, strict=True):
                work.wait()
                bucket.gathered()
        return loss

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0, *, error_if_nonfinite: bool = False) -> Tensor:
        """Scale the gradients so that their norm, as of one vector, is at most `max_norm`. A collective.

        Returns the norm before, in float64, the same on all ranks. Raises RuntimeError if that is not finite, if so
        asked.
        """
        return clip(self._gradients(), self._group, max_norm, norm_type, error_if_nonfinite)

    def _gradients(self) -> list[Tensor]:
        """This rank's parts of the mean gradients."""
        for parameter in self._frozen():
            if parameter.grad is not None:
                raise RuntimeError(
                    f"{self._name(parameter)} was frozen when the optimizer got it and now has a gradient: "
                    "make a new ShardedOptimizer, or add it by add_param_group once it is no longer frozen"
                )
        for bucket in self._buckets:
            if (left := bucket.not_exchanged()) is not None:
                raise RuntimeError(
                    f"the gradient of {self._name(left)} is not the mean over the ranks: it was set by hand, "
                    "or all its backward passes were in no_sync()"
                )
        return [gradient for bucket in self._buckets for gradient in bucket.lend_gradients()]

    def _frozen(self) -> Iterator[Tensor]:
        sharded = {parameter for bucket in self._buckets for parameter in bucket.parameters}
        for group in self.param_groups:
            yield from (parameter for parameter in group["params"] if parameter not in sharded)

    def _name(self, wanted: Tensor | int) -> str:
        """A parameter, or the one with this number, for an error."""
        every = [parameter for group in self.param_groups for parameter in group["params"]]
        names = [name for group in self.param_groups for name in group.get("param_names", [])]
        is_number = isinstance(wanted, int)
        number = wanted if is_number else next(at for at, parameter in enumerate(every) if parameter is wanted)
        return f'parameter {number} ("{names[number]}")' if number < len(names) else f"parameter {number}"

    @staticmethod
    def _share_options(source: Sequence[dict[str, object]], target: Sequence[dict[str, object]]) -> None:
        for given, group in zip(source, target, strict=True):
            group.update(_options(given))

    # -- checkpoints --------------------------------------------------------------------------------------------

    def consolidate_state_dict(self, to: int | None = 0) -> None:
        """Gather the state, for `state_dict` on rank `to` of the group, or on all ranks (None). A collective."""
        states = {values: dict(given) for values, given in self.local.state.items()}
        for bucket in self._buckets:
            for piece in bucket.pieces if bucket.exact else ():
                states.setdefault(piece.values, {})[_EXACT] = piece.values
        found = state.gathered(self._buckets, states, self._group, to)
        self._whole = found if to in (None, dist.get_rank(self._group)) else None

    def state_dict(self) -> dict[str, object]:
        """The state as the wrapped optimizer would have it for whole parameters, which it can load, and vice versa.

        Raises RuntimeError unless it was consolidated on this rank since the last step.
        """
        if self._whole is None:
            raise RuntimeError(
                "the optimizer's state lies in shards on all ranks: call consolidate_state_dict(to) on each of them "
                "after the last step, then state_dict() on rank `to`"
            )
        self.state = defaultdict(dict, self._whole)
        try:
            return super().state_dict()
        finally:
            self.state = defaultdict(dict)

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """Take over this rank's part of a state of whole parameters, from any number of ranks or the plain optimizer.

        Each rank loads the same. Raises TypeError for what is no dict, and ValueError for one that is no optimizer's
        state or does not suit the parameters.
        """
        if not isinstance(state_dict, dict):
            raise TypeError(
                f"load_state_dict takes the dict that state_dict() returned, not {type(state_dict).__name__}"
            )
        try:
            super().load_state_dict(state_dict)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(
                'this dict is no optimizer\'s state, which has "state" by parameter and "param_groups" with "params": '
                f"{error!r}"
            ) from error
        whole, self.state = self.state, defaultdict(dict)
        self._whole = None
        for bucket in self._buckets:
            state.check(bucket, whole)
        mine = self.local.state_dict()
        numbers = {
            id(values): number
            for group, saved in zip(self.local.param_groups, mine["param_groups"], strict=True)
            for values, number in zip(group["params"], saved["params"], strict=True)
        }
        mine["state"] = {}
        for bucket in self._buckets:
            for piece in bucket.pieces:
                if (parameter := bucket.parameters[piece.slot]) in whole:
                    cut = state.cut(bucket, piece, whole[parameter])
                    exact = cut.pop(_EXACT, None)
                    if bucket.exact is not None and isinstance(exact, Tensor):
                        piece.values.detach().copy_(exact)
                    mine["state"][numbers[id(piece.values)]] = cut
            if bucket.exact is not None:
                bucket.exact.encoded()
        self.local.load_state_dict(mine)
        self._share_options(self.param_groups, self.local.param_groups)


def _accumulates(bucket: ShardBucket, slot: int, _: object) -> None:
    bucket.accumulates(slot)


def _parameters(group: dict[str, object]) -> list[Tensor]:
    return cast(list[Tensor], group["params"])


def _options(group: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in group.items() if name not in _NO_OPTIONS}


def _describe(parameter: Tensor, group: int) -> str:
    frozen = "" if parameter.requires_grad else ", frozen"
    return f"{ordered(parameter)} in group {group}{frozen}"
