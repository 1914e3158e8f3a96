"""Shows what a search found: a table, sentences, and rows for JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from paceline.calibration import tune as fitted
from paceline.formats.numbers import DASH, number
from paceline.tune.choice import Choice, Row
from paceline.tune.estimate import CONFIDENCE, Estimate
from paceline.tune.setting import Samples, Setting
from paceline.tune.tune import Found


def table(found: Found, samples: Samples) -> Table:
    """Return a row for every setting that was tried."""
    unit = samples.unit(found.rows[0].setting) if found.rows else ""
    result = Table(box=SIMPLE_HEAD, padding=0, pad_edge=False)
    for column in ("processes\n× threads", "effective\nbatch", unit, f"{CONFIDENCE:.0%}\ninterval", "runs", ""):
        result.add_column(column, justify="left" if column in ("processes\n× threads", "") else "right")
    for row in found.rows:
        speed, size = row.throughput, row.effective_batch
        result.add_row(
            Text(str(row.setting)),
            DASH if size is None else str(size),
            DASH if speed is None else number(speed.value),
            DASH if speed is None else f"{number(speed.low)}–{number(speed.high)}",
            str(row.runs),
            Text(row.reason or ("chosen" if _is_chosen(row, found.choice) else "")),
        )
    return result


def records(found: Found) -> list[dict[str, Any]]:
    """Return the rows for JSON. Throughput and its bounds are None for a setting that failed."""
    return [
        {
            "setting": str(row.setting),
            "throughput": row.throughput.value if row.throughput else None,
            "low": row.throughput.low if row.throughput else None,
            "high": row.throughput.high if row.throughput else None,
            "chosen": _is_chosen(row, found.choice),
            "processes": row.setting.processes,
            "threads": row.setting.threads,
            "cores": row.setting.cores,
            "interop": row.setting.interop,
            "batch": row.setting.batch,
            "shape": str(row.setting.shape) if row.setting.shape else None,
            "effective_batch": row.effective_batch,
            "runs": row.runs,
            "reason": row.reason,
        }
        for row in found.rows
    ]


def sentences(
    choice: Choice,
    samples: Samples,
    words: Sequence[str],
    wanted: range | None,
    in_lab: bool = False,
    early: Sequence[Setting] = (),
) -> Iterator[str]:
    """Say what was chosen, how sure that is, what it does to the batch, and how to start the script with it.

    early: the settings with which the script ended too early.
    """
    chosen, setting = choice.chosen, choice.chosen.setting
    assert chosen.throughput is not None
    yield f"chosen: {described(setting)}, {number(chosen.throughput.value)} {samples.unit(setting)}"
    if choice.fastest is not chosen:
        yield (
            f"it ties with {choice.fastest.setting}, which is within {fitted.TIE:.0%}, with an interval that overlaps "
            "with its own, and asks for less"
        )
    if early:
        yield (
            f"{', '.join(map(str, early))}: the script ended before its steps could be measured, so that this may be "
            "faster; let it make more steps"
        )
    if choice.next and choice.margin:
        yield f"{_times(choice.margin)} of {choice.next.setting}, the next best"
    if choice.default and choice.gain and choice.default is not choice.next:
        yield f"{_times(choice.gain)} of {choice.default.setting}, which a framework takes by itself"
    yield _batch(chosen, samples, wanted)
    where = " on every machine of the lab" if in_lab else ""
    yield f"to use it{where}: {shlex.join(command(setting, words, in_lab))}"
    yield f"or: {shlex.join(('paceline', 'run', '--tuned', '--', *words))}"


def described(setting: Setting) -> str:
    """Return a setting in words, such as "2 processes with 1 thread each, cores static"."""
    processes = f"{setting.processes} process{'' if setting.processes == 1 else 'es'}"
    threads = f"{setting.threads} thread{'' if setting.threads == 1 else 's'}"
    first = f"{processes} with {threads}{' each' if setting.processes > 1 else ''}"
    return ", ".join([first, *str(setting).split(", ")[1:]])


def command(setting: Setting, words: Sequence[str], in_lab: bool = False) -> list[str]:
    """Return the command line that starts the script with this setting; a lab says how many ranks a machine has."""
    options = [] if in_lab else ["-n", str(setting.processes)]
    options += ["--threads", str(setting.threads)]
    options += ["--interop-threads", str(setting.interop)] if setting.interop is not None else []
    options += ["--cores", setting.cores] if setting.cores != "off" else []
    return ["paceline", "run", *options, "--", *setting.command(words)]


def _batch(row: Row, samples: Samples, wanted: range | None) -> str:
    setting = row.setting
    part, parts = ("process", "processes") if setting.shape is None else ("replica", "replicas")
    if row.effective_batch is None:
        whole = f"shared by all {parts}" if samples.strong else f"{setting.replicas} times that of one {part}"
        return f"effective batch: {whole}; --batch says how large that is"
    size = f"effective batch: {row.effective_batch}"
    if not samples.strong and setting.replicas > 1:
        size += f" ({setting.batch} for each of {setting.replicas} {parts}; a learning rate may have to follow)"
    if wanted is not None and row.effective_batch not in wanted:
        size += f"; it leaves {wanted.start}:{wanted.stop - 1}, which no setting can keep"
    return size


def _times(ratio: Estimate) -> str:
    return f"{ratio.value:.3f} times ({ratio.low:.3f}–{ratio.high:.3f}) the throughput"


def _is_chosen(row: Row, choice: Choice | None) -> bool:
    return choice is not None and row.setting == choice.chosen.setting
