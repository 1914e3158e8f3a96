#!/usr/bin/env python3
"""gpu.py test|bench: build what runs on a GPU and run it; where there is no GPU, say so and do nothing.

It needs nvcc, CMake and a C++ compiler, and neither a network nor an environment: the tests are C++. `test` compares
the kernels with the engine's own reductions and codecs, and again under compute-sanitizer where that is installed, and
runs collectives between processes that share the GPU. `bench` times the kernels beside the driver's copy.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "gpu"
LIMIT = 9 * 60  # seconds, for all of it
KERNELS = ["gpu_reductions", "gpu_device_codecs"]
COLLECTIVES = [
    "gpu_all_reduce",
    "gpu_device_collectives",
    "gpu_device_encoded",
    "gpu_device_losses",
    "gpu_machines",
    "gpu_limits",
]
TARGETS = {"test": [*KERNELS, *COLLECTIVES], "bench": ["gpu_bench"]}


def no_gpu() -> str | None:
    """Why there is none, or None where there is one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no driver library (libcuda.so.1)"
    count = ctypes.c_int(0)
    if (result := driver.cuInit(0)) or (result := driver.cuDeviceGetCount(ctypes.byref(count))):
        return f"the driver answers with error {result}"
    return None if count.value else "the driver sees none"


def run(command: list[str | Path], deadline: float) -> None:
    try:
        code = subprocess.run(command, cwd=ROOT, timeout=max(deadline - time.monotonic(), 1)).returncode
    except subprocess.TimeoutExpired:
        sys.exit(f"gpu: {command[0]} took longer than what was left of {LIMIT} s")
    if code:
        sys.exit(f"gpu: {' '.join(map(str, command))} ended with {code}")


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"gpu: say one of {', '.join(TARGETS)}")
    if reason := no_gpu():
        print(f"Skipped: there is no GPU to run on, because {reason}.")
        return
    if not any(shutil.which("nvcc", path=path) for path in (None, "/usr/local/cuda/bin")):
        sys.exit("gpu: nvcc is not there; put CUDA's bin folder on the PATH")
    deadline = time.monotonic() + LIMIT
    targets = TARGETS[sys.argv[1]]
    generator: list[str | Path] = ["-G", "Ninja"] if shutil.which("ninja") else []
    configure: list[str | Path] = ["-DCMAKE_BUILD_TYPE=Release", "-DPACELINE_PYTHON=OFF", "-DPACELINE_TESTS=ON"]
    run(["cmake", "-S", ROOT, "-B", BUILD, *generator, "--log-level=WARNING", *configure], deadline)
    run(["cmake", "--build", BUILD, "--parallel", str(os.cpu_count() or 1), "--target", *targets], deadline)
    for target in targets:
        run([BUILD / "engine" / "tests" / target], deadline)
    if sys.argv[1] == "test" and (sanitizer := shutil.which("compute-sanitizer")):
        for target in KERNELS:
            run([sanitizer, "--error-exitcode", "1", BUILD / "engine" / "tests" / target], deadline)


if __name__ == "__main__":
    main()
