"""The optimizer for op=Adasum: each rank takes its own step, and Adasum combines the steps.

S. Maleki et al. (2020), section 4.1, apply Adasum to the optimizer's changes of the parameters, not to the gradients.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.nn import Parameter

from paceline.horovod import ops
from paceline.horovod.process_sets import ProcessSet
from paceline.horovod.torch.allreduce import allreduce_async_
from paceline.horovod.torch.compression import Compressor
from paceline.horovod.torch.waiting import synchronize
from paceline.horovod.torch.wrapping import TOO_EARLY, TOO_OFTEN


class AdasumOptimizer(torch.optim.Optimizer):
    """A base class that is put before the optimizer's own class."""

    def attach(
        self, names: dict[Parameter, str], compression: type[Compressor], passes: int, process_set: ProcessSet
    ) -> None:
        """Start to count the parameters' gradients.

        names: the name under which each parameter's change is combined. passes: the number of backward passes between
        two steps.
        """
        self._parameter_names, self._compression, self._process_set = names, compression, process_set
        self._trained = [p for group in self.param_groups for p in group["params"] if p.requires_grad]
        self.set_backward_passes_per_step(passes)
        for parameter in self._trained:
            parameter.register_post_accumulate_grad_hook(self._arrived)

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Accumulate gradients over this number of backward passes from now on."""
        self.backward_passes_per_step = passes
        self._left: dict[Tensor, int] = dict.fromkeys(self._trained, passes)
        self._fresh = False

    def _arrived(self, parameter: Tensor) -> None:
        if self._left[parameter] <= 0:
            raise AssertionError(TOO_OFTEN)
        self._left[parameter] -= 1
        self._fresh = True

    def synchronize(self) -> None:
        """Do nothing: each rank keeps its own gradients."""

    def skip_synchronize(self) -> NoReturn:
        """Always raises AssertionError: combining the steps cannot be skipped."""
        raise AssertionError("Skipping synchronization is not supported when using Adasum optimizer.")

    def step(self, closure: Any = None) -> Any:
        """Take the optimizer's own step, then replace its changes by the combination of all ranks' changes.

        Returns the closure's loss. Raises HorovodInternalError if a collective fails.
        """
        before = {parameter: parameter.detach().clone() for parameter in self._trained}
        loss = super().step(closure)
        with torch.no_grad():
            waiting = []
            for parameter, start in before.items():
                change, context = self._compression.compress(parameter.detach() - start)
                name = self._parameter_names[parameter]
                handle = allreduce_async_(change, name=name, op=ops.Adasum, process_set=self._process_set)
                waiting.append((parameter, start, context, handle))
            for parameter, start, context, handle in waiting:
                parameter.copy_(start + self._compression.decompress(synchronize(handle), context))
        self.set_backward_passes_per_step(self.backward_passes_per_step)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients. Raises AssertionError between a backward pass and the step that uses it."""
        if self._fresh:
            raise AssertionError(TOO_EARLY)
        super().zero_grad(set_to_none)
