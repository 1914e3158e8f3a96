"""The blocks of Python on the pages run as they stand there, as if pasted, in the page's order. Each block of any page
runs, or it is said why not."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs import RAW, TORCH, run
from page_blocks import ARRAYS, GUIDES, HOROVOD, NOT_RUN, OPENINGS, PAGES, SHELL, blocks, name_of

from paceline.launch import torchrun

NEEDS_TORCH = pytest.mark.skipif(not torchrun.installed(), reason="torch is not installed")


def test_every_block_runs_or_it_is_said_why_not() -> None:
    ran = {f"{page} sh {number}" for page, numbers in SHELL.items() for number in numbers}
    ran |= {f"{page} python {number}" for page, numbers in GUIDES for number in numbers}
    ran |= {f"{page} python {number}" for page, number, *_ in (*HOROVOD, *OPENINGS, *ARRAYS)}
    every = {
        f"{name_of(page)} {language} {number}"
        for page in PAGES
        for language in ("sh", "python")
        for number, _ in enumerate(blocks(name_of(page), language))
    }
    said = {block for block in every if block in NOT_RUN or block.split(" ")[0] in NOT_RUN}
    assert every - ran - said == set(), "run it here, or say why not"
    assert ran & said == set()
    assert ran <= every
    assert [reason for reason in NOT_RUN if not any(block.startswith(reason) for block in every)] == []


CONTEXT = """
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import paceline.torch


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))

    @property
    def layers(self):
        return [self[0], self[2]]


dist.init_process_group("paceline")
torch.manual_seed(0)
rank, loss = dist.get_rank(), nn.functional.mse_loss
example = torch.randn(8, 3)
dataset = [(torch.randn(3), torch.randn(1)) for _ in range(600)]
loader = [(torch.randn(8, 3), torch.randn(8, 1)) for _ in range(3)]
module = model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
"""What the guides' lines take to be there."""
GIVEN = """
import numpy as np
import paceline

weights = parameters = np.ones(8, np.float32)
gradient = gradients = np.ones(64, np.float32)
residual = np.zeros(64, np.float32)
"""
BY_NAME = """
import torch
from torch import nn

torch.manual_seed(0)
loss, model = nn.functional.mse_loss, nn.Linear(3, 1)
optimizer, named_parameters = torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters()
"""
JOINED = """
hvd.init()
loader = [(torch.randn(8, 3), torch.randn(8, 1)) for _ in range(2 + hvd.rank())]
"""


def pasted(folder: Path, parts: list[str], imports: tuple[str, ...]) -> None:
    """Run the parts as one program on two ranks."""
    program, output = folder / "shown.py", folder / "output"
    head = f"import os; os.chdir({str(folder)!r})"
    program.write_text("\n".join([head, *parts, "print('it ran')"]))
    output.mkdir()
    run(2, program, output=output, env={"PACELINE_TIMEOUT": "100"}, imports=imports)
    assert [file.read_text().splitlines()[-1] for file in sorted(output.glob("*.out"))] == ["it ran"] * 2


@NEEDS_TORCH
@pytest.mark.parametrize(("page", "numbers"), GUIDES)
def test_the_lines_of_guides_run_in_order(page: str, numbers: tuple[int, ...], tmp_path: Path) -> None:
    found = blocks(page, "python")
    pasted(tmp_path, [CONTEXT, *(f"{found[number]}\ndist.barrier()" for number in numbers)], TORCH)


@NEEDS_TORCH
def test_the_lines_for_horovod_run(tmp_path: Path) -> None:
    (first, wraps, joins) = (blocks(page, "python")[number] for page, number in HOROVOD)
    pasted(tmp_path, [BY_NAME, first, JOINED, wraps, joins], TORCH)


@NEEDS_TORCH
@pytest.mark.parametrize(("page", "number"), OPENINGS)
def test_the_line_that_pages_change_opens_a_group(page: str, number: int, tmp_path: Path) -> None:
    imported = "import torch.distributed\nimport torch.distributed as dist"
    opened = "assert dist.get_backend() == 'paceline'; dist.barrier()"
    pasted(tmp_path, [imported, blocks(page, "python")[number], opened], TORCH)


def test_the_lines_on_arrays_run(tmp_path: Path) -> None:
    parts = []
    for page, number, holds in ARRAYS:
        text = blocks(page, "python")[number]
        opened = "" if "paceline.init" in text else "group = paceline.init()"
        parts += [GIVEN, opened, text, f"assert (gradient == {holds}).all(), {page!r}"]
    pasted(tmp_path, parts, RAW)
