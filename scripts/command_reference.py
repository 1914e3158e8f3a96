"""Renders the reference of the `paceline` command as Markdown, from the commands themselves."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

import typer

from paceline.cli import main


def escaped(text: str) -> str:
    """Text as it can stand in a cell of a table."""
    return html.escape(" ".join(text.split()), quote=False).replace("|", "&#124;").replace("[", "&#91;")


def rows(command: Any, context: Any) -> Iterator[tuple[str, str]]:
    """Arguments and options with their help, as `--help` shows them."""
    for parameter in command.get_params(context):
        shown = parameter.get_help_record(context)
        if shown is None:
            yield parameter.make_metavar(context), getattr(parameter, "help", None) or ""
        elif "--help" not in parameter.opts:
            yield shown


def described(text: str) -> str:
    """The paragraphs of a help text. Lines that are commands become blocks of commands."""
    paragraphs = re.split(r"\n\s*\n", re.sub(r"\n[ \t]+", "\n", text.replace("\b", "").strip()))
    shown = [f"```sh\n{paragraph}\n```" if paragraph.startswith("paceline ") else paragraph for paragraph in paragraphs]
    return "\n\n".join(shown).replace("\n```\n\n```sh\n", "\n")


def section(command: Any, path: str, depth: int) -> Iterator[str]:
    """One command and those below it."""
    context = command.context_class(command, info_name=path)
    yield f"{'#' * depth} `{path}`"
    yield described(command.help or "")
    yield f"```text\n{' '.join([path, *command.collect_usage_pieces(context)])}\n```"
    if table := list(rows(command, context)):
        lines = [f"| <code>{escaped(name)}</code> | {escaped(text)} |" for name, text in table]
        yield "\n".join(["| Argument or option | Meaning |", "| --- | --- |", *lines])
    for name, below in sorted(getattr(command, "commands", {}).items()):
        yield from section(below, f"{path} {name}", depth + 1)


def command_section(name: str) -> str:
    """The section of one command, such as `run`, with those below it."""
    command = typer.main.get_command(main.application(name)).commands[name]  # type: ignore[attr-defined]
    return "\n\n".join(section(command, f"paceline {name}", 3))
