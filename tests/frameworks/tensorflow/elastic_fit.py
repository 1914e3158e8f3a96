"""An elastic script for Keras. Each step adds the number of ranks to the weight: gradients are -1, and are added.

elastic_fit.py FOLDER kill|grow: before the third batch of the second epoch rank 1 of two kills itself, or one rank
makes FOLDER/holding and waits for another.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import paceline.horovod.tensorflow.keras as hvd

FOLDER, EVENT = Path(sys.argv[1]), sys.argv[2]
EPOCHS, STEPS = 3, 4


class Event(tf.keras.callbacks.Callback):
    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if (state.epoch, batch) != (1, 2):
            return
        if EVENT == "kill" and hvd.size() == 2 and hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        while EVENT == "grow" and hvd.size() == 1:
            (FOLDER / "holding").touch()
            time.sleep(0.02)
            state.check_host_updates()


@hvd.elastic.run
def train(state: hvd.elastic.KerasState) -> None:
    seen.append((hvd.size(), state.epoch, state.batch))
    callbacks = [
        Event(),
        hvd.elastic.UpdateEpochStateCallback(state),
        hvd.elastic.UpdateBatchStateCallback(state),
        hvd.elastic.CommitStateCallback(state),
    ]
    data = tf.data.Dataset.from_tensors((np.ones((1, 1), "float32"), np.zeros((1, 1), "float32"))).repeat()
    state.model.fit(data, steps_per_epoch=STEPS, epochs=EPOCHS - state.epoch, callbacks=callbacks, verbose=0)


hvd.init()
model = tf.keras.Sequential([tf.keras.layers.Input((1,)), tf.keras.layers.Dense(1, use_bias=False)])
optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(1.0), op=hvd.Sum)
model.compile(loss=lambda _, found: -found, optimizer=optimizer)
model.set_weights([np.zeros((1, 1), "float32")])
state = hvd.elastic.KerasState(model, batch=0, epoch=0)
seen: list[tuple[int, int, int]] = []
train(state)
print(hvd.rank(), hvd.size(), seen, state.epoch, model.get_weights()[0].tolist())
