"""`paceline bench`: each collective is a subcommand, and so is each of the other measurements."""

from __future__ import annotations

import typer

from paceline_bench import collectives
from paceline_bench.codecs.command import command as codecs
from paceline_bench.convergence.command import command as convergence
from paceline_bench.coordination.command import command as coordination
from paceline_bench.data.command import command as data
from paceline_bench.ddp.command import command as ddp
from paceline_bench.graphs.command import command as order
from paceline_bench.hybrid.command import command as hybrid
from paceline_bench.in_jax.command import command as jax
from paceline_bench.in_tensorflow.command import command as tensorflow
from paceline_bench.kernels.command import command as reductions
from paceline_bench.loading.command import command as loading
from paceline_bench.named.command import command as named
from paceline_bench.simulate.command import command as simulate
from paceline_bench.tune.command import command as tune
from paceline_bench.waiting.command import command as waiting

command = typer.Typer(no_args_is_help=True, add_completion=False)

for _name in collectives.COLLECTIVES:
    command.command(_name, short_help="Measure Paceline and its peers.")(collectives.command)
command.command("reductions", short_help="Measure the kernels that combine data, and what memory allows.")(reductions)
command.command("codecs", short_help="Measure the codecs, and a copy beside them.")(codecs)
command.command("waiting", short_help="Measure what waiting ranks cost others, and others them.")(waiting)
command.command("ddp", short_help="Measure what the exchange costs a training, end to end.")(ddp)
command.command("hybrid", short_help="Measure models in partitions, and how well they are predicted.")(hybrid)
command.command("data", short_help="Measure what it costs a training to get its batches to the ranks.")(data)
command.command("loading", short_help="Measure a reading pipeline that ranks share, and one for each.")(loading)
command.command("convergence", short_help="Show what encoding gradients and parameters does to trainings.")(convergence)
command.command("order", short_help="Measure what it costs to compute the order of gradients in advance.")(order)
command.command("coordination", short_help="Measure what agreeing on an order costs.")(coordination)
command.command("jax", short_help="Measure sums of JAX arrays, by Paceline and by JAX itself.")(jax)
command.command("named", short_help="Measure named gradients through Horovod's API, in Paceline and in Horovod.")(named)
command.command("simulate", short_help="Measure how well a run predicts other runs.")(simulate)
command.command("tensorflow", short_help="Measure gradients and Keras steps in TensorFlow, and its own strategy.")(
    tensorflow
)
command.command("tune", short_help="Measure how well the search of `paceline tune` does.")(tune)
