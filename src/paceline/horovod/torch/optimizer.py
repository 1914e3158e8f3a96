"""DistributedOptimizer wraps an optimizer so that its gradients are combined over all ranks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from paceline.horovod import job, ops
from paceline.horovod.compression import codec_of
from paceline.horovod.process_sets import ProcessSet, global_process_set
from paceline.horovod.torch.adasum_optimizer import AdasumOptimizer
from paceline.horovod.torch.allreduce import sparse_allreduce_async
from paceline.horovod.torch.allreduce_requests import start
from paceline.horovod.torch.compression import Compression, Compressor, encodes
from paceline.horovod.torch.gradient_groups import Groups, check_groups, units
from paceline.horovod.torch.known_order import announce_order
from paceline.horovod.torch.naming import parameter_names
from paceline.horovod.torch.objects import broadcast_object
from paceline.horovod.torch.tensors import stays
from paceline.horovod.torch.waiting import synchronize
from paceline.horovod.torch.wrapping import TOO_EARLY, TOO_OFTEN, wrapped
from paceline.torch.residuals import Residuals

Unit = tuple[Parameter, ...]
Finish = Callable[[], None]


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, Parameter]] | None = None,
    compression: type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = ops.Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Groups = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> torch.optim.Optimizer:
    """Return an optimizer of the same class whose `step` first combines the gradients of all ranks.

    Each gradient is submitted as soon as the backward pass has computed it, while others are still being computed. The
    optimizer has `synchronize()`, which waits for the gradients, and `skip_synchronize()`, a context in which `step`
    does not wait for them again.

    named_parameters: the names by which gradients are matched, usually `model.named_parameters()`; by default their
    positions in the optimizer. backward_passes_per_step: the number of backward passes over which gradients are
    accumulated before they are combined. op: the reduction; with Adasum, whole steps are combined instead of gradients.
    gradient_predivide_factor: the part of the average's division that is done before the sum; for Average only. groups:
    a number of groups, or lists of parameters, whose gradients are combined together; `num_groups` is its older name.
    sparse_as_dense: whether sparse gradients are combined as dense ones. compression: with `int8`, `int4` and
    `three_in_one` each rank keeps what encoding has lost of its gradients, as `residuals` of the optimizer, and adds it
    in the next step; save `residuals.state_dict()` on every rank.

    Raises ValueError for invalid arguments.
    """
    if gradient_predivide_factor != 1.0 and op != ops.Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if num_groups:
        warnings.warn("Parameter `num_groups` has been replaced by `groups`", DeprecationWarning, stacklevel=2)
        groups = num_groups if groups is None else groups
    if backward_passes_per_step <= 0:
        raise ValueError("backward_passes_per_step must be > 0")
    check_groups(groups)
    names = parameter_names(optimizer, named_parameters)
    if op == ops.Adasum and (job.current().size > 1 or job.worker() is not None):
        made: Any = wrapped(optimizer, AdasumOptimizer)
        made.attach(names, compression, backward_passes_per_step, process_set)
        return made  # type: ignore[no-any-return]
    made = wrapped(optimizer, GradientOptimizer)
    made.attach(
        names,
        compression,
        backward_passes_per_step,
        op,
        gradient_predivide_factor,
        groups,
        sparse_as_dense,
        process_set,
    )
    return made  # type: ignore[no-any-return]


class GradientOptimizer(torch.optim.Optimizer):
    """A base class, put before the optimizer's own, whose hooks submit gradients and whose `step` waits for them."""

    def attach(
        self,
        names: dict[Parameter, str],
        compression: type[Compressor],
        passes: int,
        op: int,
        predivide: float,
        groups: Groups,
        sparse_as_dense: bool,
        process_set: ProcessSet,
    ) -> None:
        """Start to submit the parameters' gradients.

        names: the name under which each gradient is combined. passes: the number of backward passes between two steps.
        predivide: see `gradient_predivide_factor` of DistributedOptimizer.
        """
        self._parameter_names, self._compression, self._op = names, compression, op
        self._scales = (1.0 / predivide, predivide) if op == ops.Average else (1.0, 1.0)
        self._sparse_as_dense, self._process_set = sparse_as_dense, process_set
        self.backward_passes_per_step = passes
        encoded = {name: p for p, name in names.items() if encodes(codec_of(compression), p.dtype, op)}
        self._place = {parameter: place for place, parameter in enumerate(encoded.values())}
        self.residuals = Residuals(encoded) if encoded else None
        """What encoding has lost of each gradient on this rank; None if nothing is encoded."""
        self._unit_of: dict[Parameter, Unit] = {}
        self._skip = False
        self._reset()
        # An elastic job may have more ranks later, and a rank that joins then is the only one that makes an optimizer.
        elastic = job.worker() is not None
        if not process_set.included() or (len(process_set.ranks or ()) == 1 and not elastic):
            return
        channel = job.current().channel(process_set.process_set_id)
        order_known = channel.coordinator.options.policy == "graph" and not elastic
        same_order = order_known or (groups and not elastic)
        for unit in units(self._ordered() if same_order else self._wanted(), groups):
            for parameter in unit:
                self._unit_of[parameter] = unit
                parameter.register_post_accumulate_grad_hook(self._arrived)
        if order_known:
            alone = (unit[0] for unit in dict.fromkeys(self._unit_of.values()) if len(unit) == 1)
            announce_order(channel.coordinator, ((channel.name("allreduce", names[one]), one) for one in alone))
        self._reset()

    def _reset(self) -> None:
        self._left = dict.fromkeys(self._unit_of, self.backward_passes_per_step)
        self._ready: dict[Unit, int] = {}
        self._under_way: dict[Unit, list[Finish]] = {}
        self._fresh = False
        """Whether a gradient has come since the last synchronisation."""
        self._synchronized = False

    def _wanted(self) -> list[Parameter]:
        """Return the parameters that require gradients."""
        return [p for group in self.param_groups for p in group["params"] if p.requires_grad]

    def _ordered(self) -> list[Parameter]:
        """Return the parameters that require gradients, in the order of the process set's first rank.

        Groups and announced orders must be the same on all ranks.
        """
        own = self._wanted()
        first = (self._process_set.ranks or [0])[0]
        names = broadcast_object([self._parameter_names[p] for p in own], first, "optimizer.order", self._process_set)
        place = {name: number for number, name in enumerate(names)}
        return sorted(own, key=lambda p: place.get(self._parameter_names[p], len(place)))

    def _arrived(self, parameter: Tensor) -> None:
        assert isinstance(parameter, Parameter)
        if self._left[parameter] <= 0:
            raise AssertionError(TOO_OFTEN)
        self._left[parameter] -= 1
        self._fresh, self._synchronized = True, False
        if self._left[parameter]:
            return
        unit = self._unit_of[parameter]
        self._ready[unit] = self._ready.get(unit, 0) + 1
        if self._ready[unit] == len(unit):
            self._hand_in(unit)

    def _hand_in(self, unit: Unit) -> None:
        """Start to combine these gradients. A rank without one sends zeros, because others may have computed one."""
        for parameter in unit:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter, memory_format=torch.contiguous_format)
        sparse = [p for p in unit if _gradient(p).is_sparse and not self._sparse_as_dense]
        dense = [p for p in unit if p not in set(sparse)]
        finishes = [self._combine_sparse(parameter) for parameter in sparse]
        if dense:
            finishes.append(self._combine(dense, len(unit) > 1))
        self._under_way[unit] = finishes

    def _combine(self, parameters: list[Parameter], grouped: bool) -> Finish:
        gradients = [_gradient(parameter) for parameter in parameters]
        dense = [gradient.to_dense() if gradient.is_sparse else gradient for gradient in gradients]
        pairs = [self._compression.compress(gradient) for gradient in dense]
        handle = start(
            [tensor for tensor, _ in pairs],
            True,
            self._op,
            self._parameter_names[parameters[0]],
            *self._scales,
            self._process_set,
            grouped,
            codec_of(self._compression),
            [self._residual(parameter) for parameter in parameters],
        )

        def finish() -> None:
            results = synchronize(handle)
            for parameter, result, (_, context) in zip(
                parameters, results if grouped else [results], pairs, strict=True
            ):
                _take(parameter, self._compression.decompress(result, context))

        return finish

    def _residual(self, parameter: Parameter) -> Tensor | None:
        if self.residuals is None or parameter not in self._place:
            return None
        coordinator = job.current().channel(self._process_set.process_set_id).coordinator
        like = parameter.detach() if stays(coordinator, parameter) else None
        return self.residuals.of(self._place[parameter], parameter.numel(), [parameter], [0], like=like)

    def _combine_sparse(self, parameter: Parameter) -> Finish:
        result = sparse_allreduce_async(
            _gradient(parameter), self._parameter_names[parameter], self._op, self._process_set
        )
        return lambda: _take(parameter, result())

    def synchronize(self) -> None:
        """Wait until the gradients of all ranks are combined. A second call before the next backward pass changes
        nothing.

        Raises HorovodInternalError if a collective fails.
        """
        if self._synchronized:
            return
        for unit in dict.fromkeys(self._unit_of.values()):
            if unit not in self._under_way:
                self._hand_in(unit)
        try:
            for finishes in self._under_way.values():
                for finish in finishes:
                    finish()
        finally:
            self._reset()
        self._synchronized = True

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """A context in which `step` does not wait for gradients, for example to clip them after `synchronize()`."""
        self._skip = True
        try:
            yield
        finally:
            self._skip = False

    def step(self, closure: Any = None) -> Any:
        """Wait for the combined gradients, then take the optimizer's own step and return the closure's loss.

        Raises HorovodInternalError if a collective fails.
        """
        if not self._skip:
            if self._synchronized:
                warnings.warn(
                    "optimizer.step() called without optimizer.skip_synchronize() context after "
                    "optimizer.synchronize(). The gradients were synchronized already and are used unchanged.",
                    stacklevel=2,
                )
            self.synchronize()
        self._synchronized = False
        return super().step(closure)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients. Raises AssertionError between a backward pass and the step that uses it."""
        if self._fresh:
            raise AssertionError(TOO_EARLY)
        super().zero_grad(set_to_none)

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Accumulate gradients over this number of backward passes from now on."""
        self.backward_passes_per_step = passes
        self._left = dict.fromkeys(self._unit_of, passes)

    def load_state_dict(self, state_dict: Any) -> None:
        """Load the optimizer's state and forget gradients that were counted."""
        self._reset()
        self._skip = False
        super().load_state_dict(state_dict)


def _gradient(parameter: Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


def _take(parameter: Parameter, result: Tensor) -> None:
    """Store `result` as the parameter's gradient."""
    gradient = _gradient(parameter)
    if result is gradient:
        return
    with torch.no_grad():
        if gradient.is_sparse or result.is_sparse:
            parameter.grad = result if result.is_sparse else result.to_sparse(gradient.sparse_dim())
        else:
            gradient.copy_(result)
