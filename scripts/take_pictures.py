"""Takes the pictures of docs/images/page anew, of a real search and real runs in a home for it.

Needs Chromium and what `pip install -e '.[dev]'` brings; takes some minutes.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from PIL import Image
from playwright import sync_api

ROOT = pathlib.Path(__file__).parents[1]
PICTURES = ROOT / "docs/images/page"
DIGITS = ROOT / "examples/platform/keras_digits"
TRANSLATION = ROOT / "examples/platform/task_translation/adaptive.yaml"
VIEWS = {
    "experiments": "/experiments",
    **{
        tab: f"/experiments/1?tab={tab}"
        for tab in ("overview", "trials", "curves", "parallel", "scatter", "importance", "search")
    },
    "compare": "/experiments/1?tab=compare&sel=1-6",
    "timeline": "/experiments/1?tab=timeline",
    "logs": "/experiments/4?tab=logs",
    "trial": "/trials/{best}",
    "runs": "/runs",
}
NUM_COLORS = 128


def run(*arguments: str | int | pathlib.Path) -> str:
    """Runs a command of the package, and returns what it printed."""
    command = [sys.executable, "-m", "quintain.cli.main", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            printed, _ = process.communicate()
        except BaseException:
            process.send_signal(signal.SIGINT)  # A search pauses, and ends its trials.
            process.wait()
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return printed


def make_home(directory: pathlib.Path) -> int:
    """Searches and trains, and returns the number of the best trial of the first search."""
    shown = {
        "QUINTAIN_HOME": str(directory / "home"),
        "PYTHONPATH": str(ROOT),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    os.environ.update(shown)
    searched = run("experiment", "create", DIGITS / "adaptive.yaml", DIGITS, *_set(max_trials=40))
    run("experiment", "create", DIGITS / "pbt.yaml", DIGITS)
    run("experiment", "create", DIGITS / "grid.yaml", DIGITS)
    for name, seed in (("first", 1), ("second", 2)):
        settings = {"trainer.train_steps": 300, "runtime.seed": seed}
        options = [f"--set={key}={value}" for key, value in settings.items()]
        experiment = "--experiment=translation/local"
        run("train", experiment, f"--model-dir={directory}/runs/{name}", "--quiet", *options)
    run("experiment", "create", TRANSLATION, *_set(max_trials=2, max_length=20))
    best = re.search(r"^Best: .*\(trial (\d+)\)$", searched, re.MULTILINE)
    assert best is not None, searched
    return int(best[1])


def _set(**settings: int) -> list[str]:
    return [f"--set=searcher.{name}={value}" for name, value in settings.items()]


def take_pictures(link: str, best: int) -> None:
    """Opens each view in a light and a dark browser."""
    found = map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))
    path = next(filter(None, found))
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 760})
        page.goto(link)
        for name, place in VIEWS.items():
            page.evaluate("place => { location.hash = place; }", place.format(best=best))
            page.wait_for_timeout(2500)
            page.get_by_text("Computing").first.wait_for(state="hidden", timeout=120_000)
            for theme in ("light", "dark"):
                page.emulate_media(color_scheme=theme)
                page.wait_for_timeout(300)
                target = PICTURES / f"{name}-{theme}.png"
                page.screenshot(path=target)
                Image.open(target).convert("RGB").quantize(NUM_COLORS).save(target, optimize=True)
            page.emulate_media(color_scheme="light")
        browser.close()


def main() -> None:
    """Replaces all pictures, and prints their sizes."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as directory:
        try:
            best = make_home(pathlib.Path(directory))
            take_pictures(json.loads(run("ui", "--no-browser", "--json"))["url"], best)
        finally:
            stop = [sys.executable, "-m", "quintain.cli.main", "master", "stop", "--now"]
            subprocess.run(stop, check=False)  # None may run yet.
    for path in sorted(PICTURES.iterdir()):
        print(f"{path.name}: {path.stat().st_size / 1024:.0f} KiB")  # noqa: T201 - a script


if __name__ == "__main__":
    main()
