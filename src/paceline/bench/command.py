"""`paceline bench`: each collective is a command of its own, and so is what else can be measured."""

from __future__ import annotations

import typer

from paceline.bench import collectives
from paceline.bench.coordination.command import command as coordination
from paceline.bench.ddp.command import command as ddp
from paceline.bench.graphs.command import command as order
from paceline.bench.kernels.command import command as reductions
from paceline.bench.named.command import command as named
from paceline.bench.waiting.command import command as waiting

command = typer.Typer(no_args_is_help=True, add_completion=False)

for _name in collectives.COLLECTIVES:
    command.command(_name, short_help="Paceline beside its peers.")(collectives.command)
command.command("reductions", short_help="The kernels that combine data, beside what memory allows.")(reductions)
command.command("waiting", short_help="What waiting ranks cost others, and others them.")(waiting)
command.command("ddp", short_help="What the exchange costs a training, end to end.")(ddp)
command.command("order", short_help="What it costs to know the order of gradients beforehand.")(order)
command.command("coordination", short_help="What it costs to agree on the order of named gradients.")(coordination)
command.command("named", short_help="Named gradients through Horovod's API, beside Horovod.")(named)
