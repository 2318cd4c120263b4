"""Times the page in a headless browser with ten thousand trials, beside pages of its peers.

python benchmarks/page.py [--trials=10000] [--points=50] [--rounds=3]
    [--peers=optuna,tensorboard]

Each trial has `--points` validations of two metrics. The same trials are given to Optuna's
dashboard (a study in SQLite) and to TensorBoard's HParams plugin (an event file for each trial),
both with one value of one metric for each: writing all points would take Optuna long. Compared is
the time from going to the address until a trial is there in the table (Optuna: in its list), with
servers that run already and have answered once; the rest is measured of ours alone. A browser is
needed, as `chromium-headless-shell`; the peers are installed into an environment of their own in
the user's cache directory.
"""

import argparse
import contextlib
import pathlib
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import peer_environments
import psutil
from playwright import sync_api

HERE = pathlib.Path(__file__).parent / "page_peers"
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
START_SECS = 900

# Times of frames while something is done once a frame.
FRAMES = """async ({selector, kind, frames}) => {
  const element = document.querySelector(selector);
  const box = element.getBoundingClientRect();
  const times = [];
  const fire = (name, x, y, buttons) => element.dispatchEvent(new PointerEvent(name, {
    bubbles: true, clientX: x, clientY: y, buttons, pointerId: 1, isPrimary: true }));
  const x = box.left + Number(kind.split(":")[1] ?? 0);
  if (kind.startsWith("brush")) fire("pointerdown", x, box.top + 60, 1);
  let last = await new Promise(requestAnimationFrame);
  for (let at = 0; at < frames; at += 1) {
    if (kind === "scroll") element.scrollTop += 900;
    else fire("pointermove", x, box.top + 60 + 2 * at, 1);
    const now = await new Promise(requestAnimationFrame);
    times.push(now - last);
    last = now;
  }
  if (kind.startsWith("brush")) fire("pointerup", x, box.top + 60 + 2 * frames, 0);
  return times;
}"""
# From a click on a head until the first row of the table is another one.
CLICK = """async (element) => {
  const first = () => {
    const rows = [...document.querySelectorAll(".grid-body [role=row]")];
    return rows.find((row) => row.ariaRowIndex === "2")?.textContent;
  };
  await new Promise(requestAnimationFrame);
  const before = first();
  const start = performance.now();
  (element.querySelector("button") ?? element).click();
  while (first() === before && performance.now() - start < 2000) {
    await new Promise((done) => {
      const channel = new MessageChannel();
      channel.port1.onmessage = done;
      channel.port2.postMessage(0);
    });
  }
  return performance.now() - start;
}"""


@contextlib.contextmanager
def serve(command: list[str], url: str, home: str) -> Iterator[psutil.Process]:
    """Runs a server until it answers, and ends it."""
    process = subprocess.Popen(
        command, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + START_SECS
        while True:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{' '.join(command)} does not answer at {url}")
            with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                urllib.request.urlopen(url, timeout=120)
                break
            time.sleep(0.5)
        yield psutil.Process(process.pid)
    finally:
        process.kill()
        process.wait()


def find_port() -> int:
    """Returns a free port."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def time_opening(browser: sync_api.Browser, link: str, row: str) -> float:
    """Returns the milliseconds from going to an address until a row of a table is there."""
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    page = context.new_page()
    page.set_default_timeout(START_SECS * 1000)
    start = time.perf_counter()
    page.goto(link, wait_until="commit")
    page.locator(row).first.wait_for()
    took = time.perf_counter() - start
    context.close()
    return took * 1000


def measure_ours(browser: sync_api.Browser, server: Any, num_trials: int) -> None:
    """Prints what is measured of the page alone."""
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(server.sign_in.build_link() + "#/experiments/1?tab=trials")
    page.locator(".grid-body [role=row]").first.wait_for()
    header = page.get_by_role("columnheader", name="learning_rate").first
    show("sort", [header.evaluate(CLICK) for _ in range(7)])
    show(
        "frame while scrolling",
        page.evaluate(FRAMES, {"selector": ".grid", "kind": "scroll", "frames": 120}),
    )
    show("10,000 curves until drawn", [time_drawing(page, "curves?k", num_trials)])
    show("parallel coordinates until drawn", [time_drawing(page, "parallel", num_trials)])
    show(
        "frame while brushing",
        page.evaluate(FRAMES, {"selector": ".parallel-front", "kind": "brush:60", "frames": 120}),
    )
    session = context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used = page.evaluate("performance.memory.usedJSHeapSize")
    print(f"{'memory of the page':<36} {used / 1e6:8.1f} MB")
    context.close()


def time_drawing(page: sync_api.Page, tab: str, num_trials: int) -> float:
    """Returns the milliseconds from going to a tab until its canvas has all trials."""
    tab, _, is_all = tab.partition("?")
    query = "&show=all" if is_all else ""
    return float(
        page.evaluate(
            """async ({place, least}) => {
              const start = performance.now();
              location.hash = place;
              for (;;) {
                await new Promise(requestAnimationFrame);
                const drawn = document.querySelector("canvas[data-drawn]");
                if (drawn && Number(drawn.dataset.drawn) >= least) return performance.now() - start;
                if (performance.now() - start > 60000) throw new Error("nothing was drawn");
              }
            }""",
            {"place": f"#/experiments/1?tab={tab}{query}", "least": num_trials * 0.9},
        )
    )


def measure_master(browser: sync_api.Browser, server: Any) -> None:
    """Prints what reporting 100 points a second costs, with three pages that follow them."""
    from quintain.records.rows import metric

    store = server.master._shared.store
    contexts = [browser.new_context() for _ in range(3)]
    for context in contexts:
        page = context.new_page()
        page.goto(server.sign_in.build_link() + "#/experiments/1?tab=curves")
        page.wait_for_timeout(2000)
    is_over = threading.Event()

    def report() -> None:
        for number in range(10**6):
            trial_id = 1 + number % 8
            values = {"accuracy": 0.5 + number * 1e-6, "loss": 1.0 - number * 1e-6}
            row = metric.MetricRow(
                trial_id, metric.MetricGroup.VALIDATION, 10**6 + number, values, 1, time.time()
            )
            with store.transaction() as session:
                session.add_metrics([row])
            if is_over.wait(0.01):
                return

    before, start = time.process_time(), time.monotonic()
    thread = threading.Thread(target=report)
    thread.start()
    time.sleep(15.0)
    is_over.set()
    thread.join()
    share = (time.process_time() - before) / (time.monotonic() - start)
    print(f"{'master, 100 points a second, 3 pages':<36} {share:8.1%} of a core")
    for context in contexts:
        context.close()


def show(name: str, times: list[float]) -> None:
    """Prints the median of times in milliseconds, and the 95th percentile of many."""
    text = f"{name:<36} {statistics.median(times):8.1f} ms"
    if len(times) > 20:
        text += f"   (19 of 20 below {statistics.quantiles(times, n=20)[-1]:.1f})"
    print(text, flush=True)


def main() -> None:
    """Prints the times."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--points", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default="optuna,tensorboard")
    options = parser.parse_args()
    peers = [name for name in options.peers.split(",") if name]
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        server = stack.enter_context(start_ours(directory, options.trials, options.points))
        links = {"quintain": lambda: server.sign_in.build_link() + "#/experiments/1?tab=trials"}
        rows = {"quintain": ".grid-body [role=row]"}
        for name in peers:
            url, rows[name] = stack.enter_context(start_peer(name, directory))
            links[name] = lambda url=url: url
        playwright = stack.enter_context(sync_api.sync_playwright())
        path = next(filter(None, map(shutil.which, BROWSERS)))
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--enable-precise-memory-info"]
        )
        print(f"{describe_processor()}, {options.trials:,} trials of {options.points} points")
        times: dict[str, list[float]] = {name: [] for name in links}
        for at in range(options.rounds + 1):
            for name, find_link in links.items():
                took = time_opening(browser, find_link(), rows[name])
                if at:  # The first time is to fill what the servers keep.
                    times[name].append(took)
        for name, own in times.items():
            show(f"{name}: open until the table is there", own)
        for name in peers:
            ratio = statistics.median(times[name]) / statistics.median(times["quintain"])
            print(f"  {name} / quintain: {ratio:.1f}")
        measure_ours(browser, server, options.trials)
        measure_master(browser, server)
        browser.close()


@contextlib.contextmanager
def start_ours(directory: str, num_trials: int, num_points: int) -> Iterator[Any]:
    """Writes the trials, and the files of the peers, and serves them from this process."""
    from quintain.client.home import home as home_lib
    from quintain.master.placing import slots
    from quintain.server import daemon
    from quintain.store import store as store_lib
    from quintain.testing import idle_launcher, made_search

    home = home_lib.find_home(f"{directory}/home")
    home.create()
    store = store_lib.open_store(home.database)
    made_search.write_search(store, num_trials, num_points=num_points)
    store.close()
    with daemon.MasterServer(
        home,
        slots=slots.find_slots(2, 1),
        launcher=idle_launcher.IdleLauncher(),
        settings=daemon.ServerSettings(accept_new_database=True),
    ) as server:
        yield server


@contextlib.contextmanager
def start_peer(name: str, directory: str) -> Iterator[tuple[str, str]]:
    """Gives the address of a peer that shows the same trials, and what a row of its table is."""
    python = peer_environments.find_python("page-peers")
    database = f"{directory}/home/quintain.db"
    subprocess.run([python, HERE / f"write_{name}.py", database, f"{directory}/{name}"], check=True)
    port = find_port()
    if name == "optuna":
        program = str(pathlib.Path(python).with_name("optuna-dashboard"))
        command = [program, f"sqlite:///{directory}/optuna", "--port", str(port)]
        url, row = f"http://127.0.0.1:{port}/dashboard/studies/1/trials", "li >> text=Trial 3"
    else:
        command = [
            *(python, "-m", "tensorboard.main", "--logdir", f"{directory}/tensorboard"),
            *("--port", str(port), "--load_fast=false"),
        ]
        url = f"http://127.0.0.1:{port}/?pageSize=100#hparams"
        row = "vaadin-grid-cell-content >> text=/relu|gelu|tanh/"
    with serve(command, f"http://127.0.0.1:{port}/", directory):
        yield url, row


def describe_processor() -> str:
    """Returns the name of the processor."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or sys.platform


if __name__ == "__main__":
    main()
