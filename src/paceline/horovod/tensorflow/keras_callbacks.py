"""Callbacks for Keras, without the base class that either Keras gives them; see `bound`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from paceline.horovod import basics
from paceline.horovod.tensorflow.allreduce import allreduce
from paceline.horovod.tensorflow.functions import broadcast_variables
from paceline.horovod.tensorflow.optimizer_variables import optimizer_variables
from paceline.horovod.tensorflow.variables import key

Logs = dict[str, Any] | None


def bound(part: type, base: type, module: str) -> Any:
    """Return the class of a callback, made of one from this module and the `Callback` of a Keras."""
    return type(part.__name__, (part, base), {"__doc__": part.__doc__, "__module__": module})


class _Callback:
    model: Any
    params: dict[str, Any]


class BroadcastGlobalVariablesCallback(_Callback):
    """Gives every rank the variables of the model and of its optimizer that `root_rank` has after its first batch.

    local_variables: variables to leave out. `device` is accepted for Horovod's sake.
    """

    def __init__(self, root_rank: int, device: str = "", local_variables: Iterable[Any] | None = None) -> None:
        super().__init__()
        self.root_rank = root_rank
        self.broadcast_done = False
        self._local = {key(variable) for variable in local_variables or ()}

    def register_local_var(self, var: Any) -> None:
        """Leave this variable out."""
        self._local.add(key(var))

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Broadcast, once. Collective."""
        if self.broadcast_done:
            return
        broadcast_variables([one for one in self.model.variables if key(one) not in self._local], self.root_rank)
        broadcast_variables(optimizer_variables(self.model.optimizer), self.root_rank)
        self.broadcast_done = True


class MetricAverageCallback(_Callback):
    """Replaces the metrics of each epoch by their average over all ranks, for the callbacks after this one.

    `device` is accepted for Horovod's sake.
    """

    def __init__(self, device: str = "") -> None:
        super().__init__()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Average the metrics, which are the same on all ranks; what are no numbers is left alone. Collective."""
        found = {name: np.asarray(value) for name, value in sorted((logs or {}).items()) if value is not None}
        numbers = {name: value for name, value in found.items() if value.dtype.kind in "biuf"}
        if logs is None or not numbers:
            return
        values = np.concatenate([value.ravel().astype(np.float64) for value in numbers.values()])
        averages = allreduce(tf.constant(values), name="metrics").numpy()
        parts = np.split(averages, np.cumsum([value.size for value in numbers.values()])[:-1])
        for (name, value), part in zip(numbers.items(), parts, strict=True):
            logs[name] = part.reshape(value.shape) if value.ndim else float(part[0])


class LearningRateScheduleCallback(_Callback):
    """Sets the learning rate to `initial_lr` times `multiplier`, a number or a function of the epoch.

    A number gives `multiplier ** (epoch - start_epoch)`. staircase: change it at the beginning of epochs alone, else
    with each batch, of which an epoch has `steps_per_epoch` (default: what Keras says). It holds from `start_epoch` to
    before `end_epoch`. momentum_correction: scale an optimizer's momentum with the rate for the batches at which it
    changes, where Keras holds it in a variable.

    Raises ValueError if there is no initial rate, or if nobody knows the steps of an epoch.
    """

    def __init__(
        self,
        initial_lr: float,
        multiplier: float | Callable[[float], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__()
        if initial_lr is None:
            raise ValueError("Parameter `initial_lr` is required")
        self.initial_lr, self.start_epoch, self.end_epoch = initial_lr, start_epoch, end_epoch
        self.staircase, self.momentum_correction = staircase, momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.multiplier = multiplier if callable(multiplier) else lambda epoch: multiplier ** (epoch - start_epoch)
        self.current_epoch = 0
        self._momentum: float | None = None

    def on_train_begin(self, logs: Logs = None) -> None:
        """Find out how many steps an epoch has."""
        if not self.staircase and not self.steps_per_epoch:
            self.steps_per_epoch = self.params.get("steps")
            if not self.steps_per_epoch:
                raise ValueError(
                    f"Could not autodetect the number of steps per epoch. Please specify the steps_per_epoch parameter "
                    f"to the {type(self).__name__}()."
                )

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Note the epoch."""
        self.current_epoch = epoch

    def on_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Set the learning rate, if it is time."""
        if self.current_epoch < self.start_epoch or (
            self.end_epoch is not None and self.current_epoch >= self.end_epoch
        ):
            return
        if not self.staircase:
            self._adjust(self.current_epoch + batch / (self.steps_per_epoch or 1))
        elif batch == 0:
            self._adjust(self.current_epoch)

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Restore the momentum."""
        if self._momentum is not None:
            self.model.optimizer.momentum.assign(self._momentum)
            self._momentum = None

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Add the learning rate to the epoch's figures."""
        if logs is not None:
            logs["lr"] = self._rate()

    def _rate(self) -> float:
        return float(tf.convert_to_tensor(self.model.optimizer.learning_rate))

    def _adjust(self, epoch: float) -> None:
        optimizer = self.model.optimizer
        before, now = self._rate(), self.initial_lr * self.multiplier(epoch)
        optimizer.learning_rate = now
        momentum: Any = getattr(optimizer, "momentum", None)
        if self.momentum_correction and hasattr(momentum, "assign") and before:
            self._momentum = float(tf.convert_to_tensor(momentum))
            momentum.assign(self._momentum * now / before)


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raises the learning rate from `initial_lr` divided by the number of ranks to `initial_lr` in the first epochs.

    P. Goyal et al., "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour" (2017), section 2.2, describe it.
    verbose: 1 to say when it is over. For the other arguments see LearningRateScheduleCallback.
    """

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        def multiplier(epoch: float) -> float:
            epoch += 1.0 / (self.steps_per_epoch or 1)  # gives round numbers at the end of each epoch
            return 1.0 / basics.size() * (epoch * (basics.size() - 1) / warmup_epochs + 1)

        super().__init__(initial_lr, multiplier, 0, warmup_epochs, False, momentum_correction, steps_per_epoch)
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Add the learning rate to the epoch's figures, and say when it has reached its end."""
        super().on_epoch_end(epoch, logs)
        if self.end_epoch is not None and epoch == self.end_epoch - 1 and self.verbose > 0 and basics.rank() == 0:
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {self._rate():g}.")


class BestModelCheckpoint(_Callback):
    """Keras' ModelCheckpoint that keeps the best model only, and gets its file after it was made: set `filepath`.

    Ranks write the same file: give it to rank 0's `fit` alone. The arguments are those of ModelCheckpoint.
    """

    filepath: str | None

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: str | int = "epoch",
    ) -> None:
        own: Any = super()
        own.__init__(
            "best.weights.h5" if save_weights_only else "best.keras",  # Keras 3 refuses None
            monitor=monitor,
            verbose=verbose,
            save_best_only=True,
            save_weights_only=save_weights_only,
            mode=mode,
            save_freq=save_freq,
        )
        self.filepath = None

    def on_train_begin(self, logs: Logs = None) -> None:
        """Begin as ModelCheckpoint does. Raises ValueError if nobody has set `filepath`."""
        if self.filepath is None:
            raise ValueError("BestModelCheckpoint has no file: set its `filepath` before fit().")
        own: Any = super()
        own.on_train_begin(logs)


class CommitStateCallback(_Callback):
    """Commits an elastic state after every `batches_per_commit` batches, and after each epoch.

    It does the latter once all callbacks have ended the epoch, so that its place among them does not matter.
    """

    def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
        super().__init__()
        self.state, self.batches_per_commit = state, batches_per_commit
        self.batches_remaining = batches_per_commit
        self._epoch_ended = False

    def on_train_begin(self, logs: Logs = None) -> None:
        """Count anew, so that all ranks count alike."""
        self.batches_remaining = self.batches_per_commit
        self._epoch_ended = False

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Commit, if it is time."""
        self.batches_remaining -= 1
        if self.batches_remaining == 0:
            self.batches_remaining = self.batches_per_commit
            self.state.commit()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Note that there is something to commit."""
        self._epoch_ended = True

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Commit the epoch before, if there was one."""
        self._commit_epoch()

    def on_train_end(self, logs: Logs = None) -> None:
        """Commit the last epoch."""
        self._commit_epoch()

    def _commit_epoch(self) -> None:
        if self._epoch_ended:
            self._epoch_ended = False
            self.state.commit()


class UpdateBatchStateCallback(_Callback):
    """Keeps the number of the batch in an elastic state, and shortens an epoch that a reset has broken off.

    Keras 2 then runs the batches that are left; Keras 3 takes the number of steps from its data and runs all.
    """

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self.steps_per_epoch: int | None = None

    def on_train_begin(self, logs: Logs = None) -> None:
        """Count anew, so that all ranks count alike."""
        self.steps_per_epoch = None

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Leave out the batches that were processed."""
        if self.params.get("steps"):
            if self.steps_per_epoch is None:
                self.steps_per_epoch = self.params["steps"]
            self.params["steps"] = self.steps_per_epoch - self.state.batch

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Note the batch."""
        self.state.batch = batch

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """The next epoch begins with its first batch."""
        self.state.batch = 0


class UpdateEpochStateCallback(_Callback):
    """Keeps the number of the epoch, counted over all resets, in an elastic state."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self.initial_epoch = state.epoch

    def on_train_begin(self, logs: Logs = None) -> None:
        """Count from where the state is: Keras begins with 0 after each reset."""
        self.initial_epoch = self.state.epoch

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Note the epoch that comes next."""
        self.state.epoch = self.initial_epoch + epoch + 1
