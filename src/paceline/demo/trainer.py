"""One copy of the network and its training, the same for one process and for several."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from paceline.demo.digits import Digits

LEARNING_RATE = 0.05


class Trainer:
    """Trains `module`, the network or DDP around it, for `steps` steps of SGD with warm-up and cosine decay.

    after_backward: called between each `backward()` and the optimizer's step.
    """

    def __init__(self, module: nn.Module, steps: int, after_backward: Callable[[], None] | None = None) -> None:
        self._module = module
        self._after_backward = after_backward
        self._optimizer = torch.optim.SGD(
            module.parameters(), LEARNING_RATE, momentum=0.9, weight_decay=5e-4, fused=True
        )
        self._schedule = torch.optim.lr_scheduler.OneCycleLR(
            self._optimizer, LEARNING_RATE, total_steps=steps, pct_start=0.15
        )

    def epoch(self, batches: Iterable[tuple[Tensor, Tensor]]) -> float:
        """Make one step for each batch and return the mean loss."""
        losses = [self._step(images, labels) for images, labels in batches]
        return torch.stack(losses).mean().item()

    def weights(self) -> Tensor:
        """Return all weights, float32 [n]."""
        return torch.cat([weight.detach().flatten() for weight in self._module.parameters()])

    def accuracy(self, digits: Digits) -> float:
        """Return the share of the test images that are recognised, from 0 to 1."""
        images, labels = digits.test()
        with torch.no_grad():
            right: Tensor = self._module(images).argmax(1) == labels
        return right.double().mean().item()

    def _step(self, images: Tensor, labels: Tensor) -> Tensor:
        self._optimizer.zero_grad()
        loss = cross_entropy(self._module(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        if self._after_backward:
            self._after_backward()
        self._optimizer.step()
        self._schedule.step()
        return loss.detach()
