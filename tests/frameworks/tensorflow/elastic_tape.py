"""An elastic script with a loop of its own; rank 1 of two kills itself while its fourth step's gradient is awaited."""

from __future__ import annotations

import os
import signal

import tensorflow as tf

import paceline.horovod.tensorflow as hvd


@tf.function
def gradient() -> tf.Tensor:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(weight)
    return hvd.DistributedGradientTape(tape, op=hvd.Sum).gradient(loss, [weight])[0]


@hvd.elastic.run
def train(state: hvd.elastic.TensorFlowState) -> None:
    while state.step < 6:
        if state.step == 3 and hvd.size() == 2 and hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        weight.assign_add(gradient())
        state.step += 1
        if state.step % 2 == 0:
            state.commit()


hvd.init()
pid, born = os.getpid(), hvd.rank()
weight = tf.Variable([0.0, 0.0])
state = hvd.elastic.TensorFlowState([weight], step=0)
sizes: list[int] = []
state.register_reset_callbacks([lambda: sizes.append(hvd.size())])
train(state)
print(born, hvd.rank(), hvd.size(), sizes, weight.numpy().tolist(), pid == os.getpid())
