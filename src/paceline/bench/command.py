"""`paceline bench`: each collective is a command of its own, and so is what else can be measured."""

from __future__ import annotations

import typer

from paceline.bench import collectives

command = typer.Typer(no_args_is_help=True, add_completion=False)

for _name in collectives.COLLECTIVES:
    command.command(_name, short_help="Paceline beside its peers.")(collectives.command)
