"""`paceline bench all_reduce` and its siblings measure Paceline and its peers in one interleaved run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from paceline.cpu.budget import available
from paceline.formats.sizes import parse_bytes
from paceline.formats.terminal import show
from paceline.group.codecs import CODECS
from paceline.plan.algorithms import ALGORITHMS
from paceline.settings.names import AUTO
from paceline_bench import bandwidth, option, report, sizes, systems
from paceline_bench.ending import FAILED, REFUSED, ending
from paceline_bench.interleave import Effort, Work
from paceline_bench.limit import WORK
from paceline_bench.place import RANKS, place
from paceline_bench.ranks import gradients, pattern
from paceline_bench.row import records, write_json
from paceline_bench.run import BenchRequest, Outcome, run

COLLECTIVES = tuple(bandwidth.BUS_FACTORS)


def command(
    context: typer.Context,
    ranks: RANKS = None,
    begin: option.BEGIN = "8",
    end: option.END = "64M",
    factor: option.FACTOR = 8,
    dtype: Annotated[
        str, typer.Option(help=", ".join(pattern.DTYPES), callback=option.one_of(pattern.DTYPES))
    ] = "float32",
    op: Annotated[str, typer.Option(help=", ".join(pattern.OPS), callback=option.one_of(pattern.OPS))] = "sum",
    paths: Annotated[
        str,
        typer.Option(help="Interfaces of Paceline: engine (the raw call), torch (torch.distributed), or none."),
    ] = "engine,torch",
    buffers: Annotated[
        str, typer.Option(help="Memory of Paceline's data: any (ordinary memory), arena (paceline.empty).")
    ] = "any",
    algorithms: Annotated[
        str,
        typer.Option(
            help="Algorithms of Paceline to compare, as PACELINE_ALGORITHM names them.", show_default="its choice"
        ),
    ] = "",
    codecs: Annotated[
        str,
        typer.Option(
            help="Codecs to compare between machines: " + ", ".join(CODECS) + ", and for all_reduce auto. Needs "
            "--paths engine and float32; all_reduce averages.",
            show_default="no codec",
        ),
    ] = "",
    against: option.AGAINST = "",
    peers: option.PEERS = Path(sys.prefix),
    limit: Annotated[
        bool,
        typer.Option(
            "--limit",
            help="Also measure what memory allows, for all_reduce and sendrecv: all ranks as threads over shared "
            "buffers.",
        ),
    ] = False,
    machines: Annotated[
        int, typer.Option(min=1, help="Spread the ranks over this many machines of a lab without rate limits (root).")
    ] = 1,
    rounds: Annotated[int, typer.Option(min=3, help="Most bursts per system and size.")] = Effort.rounds,
    seconds: option.SECONDS = Effort.seconds,
    iterations: Annotated[
        int | None, typer.Option(min=1, help="Calls per burst.", show_default="as many as fill 40 ms")
    ] = None,
    timeout: Annotated[float, option.time_limit("a start or a burst")] = 120.0,
    json_file: option.JSON = None,
) -> None:
    """Measure this collective in Paceline and its peers, interleaved in one run.

    Every system's ranks stay alive for the whole run. At each size they first check the result of exact data; then, in
    every round, each system gets a burst of calls while all others are blocked, idle. One call and a tenth of the
    others run untimed, a barrier follows, then the timed calls run. time(us) is the median over the rounds of the
    slowest rank's mean per call; cpu(us) is the CPU time of all ranks' processes together per call. size, algbw and
    busbw are those of nccl-tests. "vs PEER" says how many times faster than that peer. Where an MPI has several
    settings, the best at each size is shown.

    With --codecs, also with "none", the data are like gradients, because zeros would flatter the codecs whose size
    depends on the data: normally distributed, with a standard deviation of 0.001. all_reduce averages, so that they
    stay so from call to call. Results may be as far off as the codec may take them. On one machine, and below 64 KiB,
    nothing is encoded.

    On the machines of a lab (`paceline lab FILE -- paceline bench all_reduce …`) the first machine's command measures,
    with ranks on all machines as the file says, and the commands of the others end at once.

    Exit code: 0, 1 when a result was wrong or a system failed, 2 when a requested system cannot be measured.
    """
    out, err = Console(), Console(stderr=True)
    collective = str(context.info_name)
    if limit and (collective not in WORK or (dtype, op) != ("float32", "sum")):
        raise typer.BadParameter("works for float32: sums of all_reduce, and sendrecv", param_hint="--limit")
    if codecs:
        op = _coded(collective, dtype, op, (paths, against, limit))
    placed = place(ranks, machines, os.environ)
    if placed is None:
        return
    lab, ranks = placed
    works = _works(collective, dtype, op, ranks, (begin, end, factor))
    crowded = ranks > available().cpus
    chosen, missing = choose(collective, paths, against, peers, buffers, algorithms, codecs, crowded)
    for sentence in missing:
        err.print(sentence, style="yellow", markup=False, highlight=False, soft_wrap=True)
    refused = bool(missing) and against != "all"
    if not chosen and not limit:
        err.print("Nothing is left to measure.", highlight=False)
        raise typer.Exit(REFUSED)
    request = BenchRequest(
        systems=chosen,
        works=works,
        ranks=ranks,
        lab=lab,
        effort=Effort(rounds, seconds, calls=iterations),
        timeout=timeout,
        limit=limit,
    )
    outcome = _run(request, err)
    show(out, report.table(outcome.rows, root=0))
    if json_file is not None:
        write_json(records(outcome.rows), json_file)
    if outcome.failed or any(row.wrong for row in outcome.rows):
        raise typer.Exit(FAILED)
    if refused or outcome.refused:
        raise typer.Exit(REFUSED)


def _run(request: BenchRequest, err: Console) -> Outcome:
    with ending(err) as complain, err.status("") as status:
        return run(request, os.environ, complain, status.update)


def choose(
    collective: str,
    paths: str,
    against: str,
    peers: Path,
    buffers: str = "any",
    algorithms: str = "",
    codecs: str = "",
    crowded: bool = False,
) -> tuple[list[systems.System], list[str]]:
    """Return the systems to measure, and a sentence for each requested one that cannot be measured here.

    crowded: ranks outnumber the CPUs; see `systems.peer`.

    Raises typer.BadParameter for an unknown name.
    """
    wanted: list[Callable[[], list[systems.System]]] = []
    for ours in product(
        _words(paths, systems.PATHS, "none", "--paths"),
        _words(buffers, systems.BUFFERS, "", "--buffers"),
        _words(algorithms, tuple(ALGORITHMS), "", "--algorithms") or [""],
        _words(codecs, (*CODECS, AUTO) if collective == "all_reduce" else CODECS, "", "--codecs") or [""],
    ):
        wanted.append(lambda ours=ours: [systems.paceline(*ours)])  # type: ignore[misc]
    for name in systems.PEERS if against == "all" else _words(against, systems.PEERS, "", "--against"):
        wanted.append(lambda name=name: systems.peer(name, peers, collective, crowded))  # type: ignore[misc]
    chosen: list[systems.System] = []
    missing = []
    for find in wanted:
        try:
            chosen += find()
        except systems.Missing as reason:
            missing.append(str(reason))
    return chosen, list(dict.fromkeys(missing))


def _coded(collective: str, dtype: str, op: str, others: tuple[str, str, bool]) -> str:
    """Return the op to measure with codecs. others: paths, peers, and whether the limit is measured as well.

    Raises typer.BadParameter for all that is not measured with codecs.
    """
    if collective not in gradients.COLLECTIVES:
        raise typer.BadParameter(f"works for {' and '.join(gradients.COLLECTIVES)} only", param_hint="--codecs")
    if (dtype, op) != ("float32", "sum"):
        raise typer.BadParameter("works for float32 without --op only; all_reduce averages", param_hint="--codecs")
    if others != ("engine", "", False):
        raise typer.BadParameter("needs --paths engine, without --against and --limit", param_hint="--codecs")
    return "avg"


def _words(text: str, allowed: tuple[str, ...], nothing: str, option: str) -> list[str]:
    if text == nothing:
        return []
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in allowed:
            raise typer.BadParameter(f"{word!r} is none of {', '.join(allowed)}", param_hint=option)
    return list(dict.fromkeys(words))


def _works(collective: str, dtype: str, op: str, ranks: int, swept: tuple[str, str, float]) -> list[Work]:
    begin, end, factor = swept
    try:
        swept_sizes = sizes.sweep(parse_bytes(begin), parse_bytes(end), factor)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    counts = [sizes.elements(size, dtype, collective, ranks) for size in swept_sizes]
    return [Work(collective, dtype, op, count) for count in dict.fromkeys(counts)]
