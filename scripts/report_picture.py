"""Run a job with a late rank on two emulated machines, and take pictures of its report's page, light and dark.

It writes docs/pictures/report-light.png and report-dark.png. It needs a lab (root) and Chromium.

    python scripts/report_picture.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
PACELINE = Path(sys.executable).with_name("paceline")
TOPOLOGY = ROOT / "docs" / "topologies" / "2+2.yaml"
WIDTH, HEIGHT = 1000, 910
"""Pixels: the verdict, where a step goes, and the ranks over time."""
SCHEMES = {"light": 1, "dark": 0}
"""The colours that a reader prefers, as Chromium numbers them."""


def main() -> None:
    """Run the job, make its page, and take the pictures."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("report_picture: Chromium takes the pictures: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        report, page = Path(folder, "run.json"), Path(folder, "run.html")
        job = [PACELINE, "run", ROOT / "scripts" / "late_job.py"]
        environment = {**os.environ, "PACELINE_REPORT": str(report)}
        subprocess.run([PACELINE, "lab", TOPOLOGY, "--", *job], check=True, env=environment)
        subprocess.run([PACELINE, "report", report], check=True)
        subprocess.run([PACELINE, "report", report, "--html", page], check=True)
        for scheme, number in SCHEMES.items():
            picture = PICTURES / f"report-{scheme}.png"
            options = [
                "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}/profile",
                f"--window-size={WIDTH},{HEIGHT}", f"--blink-settings=preferredColorScheme={number}",
                f"--screenshot={picture}",
            ]  # fmt: skip
            subprocess.run([chromium, *options, page.as_uri()], check=True, stderr=subprocess.DEVNULL)
            print(f"{picture}: {picture.stat().st_size} bytes")


if __name__ == "__main__":
    main()
