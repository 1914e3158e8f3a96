"""The optimizer that combines gradients: it submits each when it has been computed, and waits for all in its step."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from paceline.horovod import job, ops
from paceline.horovod.compression import codec_of
from paceline.horovod.exceptions import HorovodInternalError
from paceline.horovod.process_sets import ProcessSet
from paceline.horovod.torch.allreduce_requests import start
from paceline.horovod.torch.closures import combined_loss
from paceline.horovod.torch.compression import Compressor, encodes
from paceline.horovod.torch.gradient_groups import Groups, units
from paceline.horovod.torch.known_order import announce_order
from paceline.horovod.torch.objects import broadcast_object
from paceline.horovod.torch.own_gradients import gradient, take
from paceline.horovod.torch.sparse_gradients import Finish, SparseGradients, disagreed
from paceline.horovod.torch.tensors import stays
from paceline.horovod.torch.waiting import finish_all, taken
from paceline.horovod.torch.wrapping import TOO_EARLY, TOO_OFTEN
from paceline.torch.history import History
from paceline.torch.residuals import Residuals

Unit = tuple[Parameter, ...]


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
        """The encoding residuals of each gradient on this rank; None if nothing is encoded."""
        self._history = History(list(self._place)) if encoded else None
        self._unit_of: dict[Parameter, Unit] = {}
        self._hooked: set[Parameter] = set()
        self._skip = self._combines = False
        self._sparse = SparseGradients(names, op, process_set)
        self._under_way: dict[Unit, list[Finish]] = {}
        self._reset()
        # An elastic job may have more ranks later, and a rank that joins then is the only one that makes an optimizer.
        elastic = job.worker() is not None
        if not process_set.included() or (len(process_set.ranks or ()) == 1 and not elastic):
            return
        self._combines = True
        channel = job.current().channel(process_set.process_set_id)
        order_known = channel.coordinator.options.policy == "graph" and not elastic
        same_order = order_known or (groups and not elastic)
        for unit in units(self._ordered() if same_order else self._wanted(), groups):
            self._follow(unit)
        if order_known:
            alone = (unit[0] for unit in dict.fromkeys(self._unit_of.values()) if len(unit) == 1)
            announce_order(channel.coordinator, ((channel.name("allreduce", names[one]), one) for one in alone))
        self._reset()

    def _follow(self, unit: Unit) -> None:
        for parameter in unit:
            self._unit_of[parameter] = unit
            if parameter not in self._hooked:
                self._hooked.add(parameter)
                parameter.register_post_accumulate_grad_hook(self._arrived)

    def _follow_changes(self) -> None:
        """Combine parameters that were added, or require gradients only now, and leave out those that are gone."""
        known, met = self._unit_of, 0
        new: list[tuple[Parameter, str]] = []
        for i, group in enumerate(self.param_groups):
            for j, parameter in enumerate(group["params"]):
                if parameter in known:
                    met += 1
                elif parameter.requires_grad:
                    new.append((parameter, f"allreduce.noname.{i}.{j}"))
        if met < len(known):
            own = {parameter for group in self.param_groups for parameter in group["params"]}
            for unit in {unit for parameter, unit in known.items() if parameter not in own}:
                for parameter in unit:
                    del known[parameter]
                new += [(each, self._parameter_names[each]) for each in unit if each in own and each.requires_grad]
        for parameter, name in new:
            self._parameter_names.setdefault(parameter, name)
            self._follow((parameter,))

    def _reset(self) -> None:
        self._left = dict.fromkeys(self._unit_of, self.backward_passes_per_step)
        self._ready: dict[Unit, int] = {}
        self._under_way = {}
        self._fresh = False
        """True if a gradient has come since the last synchronisation."""
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
        if parameter not in self._left:  # it was taken out of the optimizer, or came since the last step
            return
        if self._left[parameter] <= 0:
            raise AssertionError(TOO_OFTEN)
        self._left[parameter] -= 1
        if not self._fresh:
            self._forget_undone(parameter)
        self._fresh, self._synchronized = True, False
        if self._left[parameter]:
            return
        unit = self._unit_of[parameter]
        self._ready[unit] = self._ready.get(unit, 0) + 1
        if self._ready[unit] == len(unit):
            self._submit(unit)

    def _submit(self, unit: Unit) -> None:
        """Start to combine these gradients. A rank without one sends zeros, because others may have computed one."""
        guessed = [p for p in unit if p.grad is None and self._sparse.fill_in(p)]
        sparse = [p for p in unit if gradient(p).is_sparse and not self._sparse_as_dense]
        dense = [p for p in unit if p not in set(sparse)]
        finishes = [self._sparse.combine(parameter, len(unit) == 1) for parameter in sparse]
        if dense:
            finishes.append(self._combine(dense, len(unit) > 1, bool(guessed)))
        self._under_way[unit] = finishes

    def _combine(self, parameters: list[Parameter], grouped: bool, guessed: bool) -> Finish:
        """Start to combine dense gradients. guessed: whether one is zeros because there was none."""
        gradients = [gradient(parameter) for parameter in parameters]
        dense = [each.to_dense() if each.is_sparse else each for each in gradients]
        pairs = [self._compression.compress(each) for each in dense]
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

        def finish(wanted: bool) -> Finish | None:
            try:
                results = taken(handle)
            except HorovodInternalError as error:
                if not grouped and disagreed(error):
                    if guessed:
                        return self._sparse.combine_instead(parameters[0])
                    self._sparse.refuse(parameters[0])
                raise
            if not wanted:
                return None
            for parameter, result, (_, context) in zip(
                parameters, results if grouped else [results], pairs, strict=True
            ):
                take(parameter, self._compression.decompress(result, context))
            return None

        return finish

    def _residual(self, parameter: Parameter) -> Tensor | None:
        if self.residuals is None or parameter not in self._place:
            return None
        coordinator = job.current().channel(self._process_set.process_set_id).coordinator
        like = parameter.detach() if stays(coordinator, parameter) else None
        return self.residuals.of(self._place[parameter], parameter.numel(), [parameter], [0], like=like)

    def _forget_undone(self, first: Parameter) -> None:
        """Forget what was lost of gradients that no step used and that are gone. first: has the first new one."""
        if self._history is None or self.residuals is None:
            return
        if first in self._place:
            self._history.accumulated(self._place[first], first)
        if self._history.undone:
            self.residuals.reset()
        self._history.judged()

    def _finish(self, wanted: bool) -> None:
        finishes = [finish for finishes in self._under_way.values() for finish in finishes]
        following = finish_all([partial(finish, wanted) for finish in finishes])
        finish_all([partial(finish, wanted) for finish in following if finish is not None])

    def synchronize(self) -> None:
        """Wait until the gradients of all ranks are combined. A second call before the next backward pass changes
        nothing.

        Raises HorovodInternalError if a collective fails.
        """
        if self._synchronized:
            return
        if self._combines:
            self._follow_changes()
        for unit in dict.fromkeys(self._unit_of.values()):
            if unit not in self._under_way:
                self._submit(unit)
        try:
            self._finish(True)
        finally:
            self._reset()
        self._synchronized = True
        if self._history is not None:
            self._history.exchanged(self._place.values())

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

        closure: whenever the optimizer calls it, the gradients that it computes are combined, and its loss if that is a
        number, so that all ranks go on alike.

        Raises HorovodInternalError if a collective fails.
        """
        if closure is not None:
            if self._fresh and not self._skip:
                self.synchronize()
            loss = super().step(lambda: self._evaluated(closure))
            self._synchronized = False
            return loss
        if not self._skip:
            if self._synchronized:
                warnings.warn(
                    "optimizer.step() called without optimizer.skip_synchronize() context after "
                    "optimizer.synchronize(). The gradients were synchronized already and are used unchanged.",
                    stacklevel=2,
                )
            self.synchronize()
        self._synchronized = False
        if self._history is not None:
            self._history.step()
        return super().step()

    def _evaluated(self, closure: Callable[[], Any]) -> Any:
        loss = closure()
        self.synchronize()
        return combined_loss(loss, self._op, self._process_set) if self._combines else loss

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
        """Load the optimizer's state, and forget gradients that were counted or are under way, once these are over."""
        with suppress(HorovodInternalError):  # that is why a state is loaded
            self._finish(False)
        self._reset()
        self._skip = False
        super().load_state_dict(state_dict)
