"""`paceline top` shows a running job, live."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from paceline.cli.usage import UsageError


def command(
    pid: Annotated[
        int | None,
        typer.Option(help="Process of any rank, to choose among several running jobs.", show_default=False),
    ] = None,
    interval: Annotated[float, typer.Option(min=0.1, max=60, help="Seconds from one picture to the next.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print one picture and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print pictures as JSON, one per line.")] = False,
) -> int:
    """Show a running job, live: steps, exposed communication, which rank is late, what waits for whom.

    It runs on any machine of the job and shows the ranks of all of them: those of this machine are asked by it, and
    one of them asks the others over the job's own connections. The ranks answer from a thread of their own, and only
    when asked. Ctrl-C ends the display, not the job.
    """
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from paceline.monitor.top.look import Job
    from paceline.monitor.top.show import render, to_json

    try:
        job = Job(pid)
        job.ask()
        if as_json or once:
            while True:
                time.sleep(interval)
                picture = job.picture()
                if as_json:
                    print(to_json(picture), flush=True)
                else:
                    Console().print(render(picture))
                if once:
                    return 0
        with Live(Text("…"), console=Console(), screen=True, auto_refresh=False) as screen:
            while True:
                time.sleep(interval)
                screen.update(render(job.picture()), refresh=True)
    except BrokenPipeError:  # the reader of the output has closed it
        raise
    except (ValueError, OSError) as error:
        raise UsageError(str(error)) from None
    except KeyboardInterrupt:
        return 0
