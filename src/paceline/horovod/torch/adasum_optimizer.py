"""The optimizer for op=Adasum: each rank takes its own step, and Adasum combines the steps.

S. Maleki et al. (2020), section 4.1, apply Adasum to the optimizer's changes of the parameters, not to the gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.nn import Parameter

from paceline.horovod import ops
from paceline.horovod.process_sets import ProcessSet
from paceline.horovod.torch.allreduce import allreduce_async_
from paceline.horovod.torch.compression import Compressor
from paceline.horovod.torch.waiting import synchronize_all
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
        self._followed: set[Tensor] = set()
        self.backward_passes_per_step = passes
        self._follow()
        self.set_backward_passes_per_step(passes)

    def _follow(self) -> None:
        """Count the gradients of all parameters that require some now."""
        places = {
            p: f"allreduce.noname.{i}.{j}" for i, g in enumerate(self.param_groups) for j, p in enumerate(g["params"])
        }
        self._trained = [parameter for parameter in places if parameter.requires_grad]
        for parameter in self._trained:
            self._parameter_names.setdefault(parameter, places[parameter])
            if parameter not in self._followed:
                self._followed.add(parameter)
                parameter.register_post_accumulate_grad_hook(self._arrived)

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Accumulate gradients over this number of backward passes from now on."""
        self.backward_passes_per_step = passes
        self._left: dict[Tensor, int] = dict.fromkeys(self._trained, passes)
        self._fresh = False

    def _arrived(self, parameter: Tensor) -> None:
        if parameter not in self._left:  # it was taken out of the optimizer, or came since the last step
            return
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
        self._follow()
        before = {parameter: parameter.detach().clone() for parameter in self._trained}
        loss = super().step(closure and (lambda: self._evaluated(closure)))
        with torch.no_grad():
            waiting = []
            for parameter, start in before.items():
                change, context = self._compression.compress(parameter.detach() - start)
                name = self._parameter_names[parameter]
                handle = allreduce_async_(change, name=name, op=ops.Adasum, process_set=self._process_set)
                waiting.append((parameter, start, context, handle))
            results = synchronize_all([handle for *_, handle in waiting])
            for (parameter, start, context, _), result in zip(waiting, results, strict=True):
                parameter.copy_(start + self._compression.decompress(result, context))
        self.set_backward_passes_per_step(self.backward_passes_per_step)
        return loss

    def _evaluated(self, closure: Callable[[], Any]) -> Any:
        loss = closure()
        self.set_backward_passes_per_step(self.backward_passes_per_step)
        return loss

    def load_state_dict(self, state_dict: Any) -> None:
        """Load the optimizer's state and forget gradients that were counted."""
        self.set_backward_passes_per_step(self.backward_passes_per_step)
        super().load_state_dict(state_dict)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients. Raises AssertionError between a backward pass and the step that uses it."""
        if self._fresh:
            raise AssertionError(TOO_EARLY)
        super().zero_grad(set_to_none)
