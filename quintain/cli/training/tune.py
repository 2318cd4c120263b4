"""`quintain tune`: finds a learning rate, and the largest batch that fits."""

import dataclasses
import json
import os
import pathlib
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Callable
from typing import Any, Final

import click

from quintain import errors
from quintain.cli import logs, options, output
from quintain.cli.lazy_group import ARGUMENTS_KEY, FlagCommand, LazyGroup
from quintain.cli.training import local_training
from quintain.server.security import own_commands

_BATCH_FIELD: Final = "task.train_data.global_batch_size"
_MOST_DOUBLINGS: Final = 20
_MOST_LINES: Final = 25


@click.group(cls=LazyGroup)
def tune() -> None:
    r"""Find a learning rate, and the largest batch that fits.

    \b
    quintain tune lr --experiment=translation/local
    quintain tune batch --experiment=translation/local
    """
    logs.set_up(is_verbose=False)


@tune.command(cls=FlagCommand)
@options.experiment_options
@click.option("--lowest", type=float, help="First learning rate.  [default: 1e-7]")
@click.option("--highest", type=float, help="Last learning rate.  [default: 1]")
@click.option("--steps", type=click.IntRange(min=2), help="Steps between.  [default: 100]")
@click.option(
    "--proxy-width",
    type=click.IntRange(min=1),
    metavar="N",
    help="Train a model of width N, once with each rate of a grid by factors of two, for --steps "
    "or trainer.train_steps; the grid is from an eighth to eight times the config's rate.",
)
@click.option("--plot", "plot_path", metavar="FILE", help="Draw the losses, such as lr.png.")
@output.json_option
def lr(
    lowest: float | None,
    highest: float | None,
    steps: int | None,
    proxy_width: int | None,
    plot_path: str | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Find the learning rate that a model learns from fastest.

    The model is trained for some steps, and the learning rate rises by the same factor in each.
    Suggested is the rate at which the loss falls fastest; larger ones than that of the lowest loss
    are too large. Nothing is kept.

    With --proxy-width a narrow model is trained instead, and its best rate holds for the whole
    one, if that is trained by the command that is printed.
    """
    parse_options = options.build_parse_options(**flags)
    from quintain.run import experiment_parser, learning_rate_finder

    parsed = experiment_parser.parse(parse_options)
    if proxy_width is not None:
        _find_narrow(parsed, proxy_width, lowest, highest, steps, plot_path, as_json)
        return
    lowest = 1e-7 if lowest is None else lowest
    highest = 1.0 if highest is None else highest
    steps = steps or 100

    def show(step: int, rate: float, loss: float) -> None:
        if not as_json and step % max(steps // 10, 1) == 0:
            click.echo(f"step {step:>5}  learning rate {rate:.3g}  loss {loss:.5g}", err=True)

    with tempfile.TemporaryDirectory() as scratch:
        found = learning_rate_finder.find(
            parsed.params,
            scratch,
            lowest=lowest,
            highest=highest,
            num_steps=steps,
            report=show,
        )
    if plot_path is not None:
        _plot(found, plot_path)
    if as_json:
        output.print_json(dataclasses.asdict(found))
        return
    if found.suggestion is None:
        raise click.ClickException(
            f"The loss never fell between {lowest:g} and {found.learning_rates[-1]:g}; try another "
            "range, and look at the data."
        )
    click.echo(f"suggested learning rate  {found.suggestion:.3g}  (the loss falls fastest)")
    click.echo(f"lowest loss at           {found.best:.3g}  (larger ones are too large)")
    if not found.is_blown_up:
        click.echo("The loss did not rise again: a larger --highest may show more.")


def _find_narrow(
    parsed: Any,
    width: int,
    lowest: float | None,
    highest: float | None,
    steps: int | None,
    plot_path: str | None,
    as_json: bool,
) -> None:
    """Finds the best learning rate of a narrow model, and shows it."""
    from quintain.run import learning_rate_finder as finder

    params = parsed.params
    field, rate = finder.find_rate_field(params)
    base = finder.narrow(params.task.model, width)
    rates = finder.list_rates(
        rate / 8 if lowest is None else lowest, rate * 8 if highest is None else highest
    )

    def show(rate: float, loss: float) -> None:
        if not as_json:
            click.echo(f"learning rate {rate:<10.3g}  loss {loss:.5g}", err=True)

    with tempfile.TemporaryDirectory() as scratch:
        num_steps = steps or params.trainer.train_steps
        found = finder.find_narrow(params, scratch, base, rates, num_steps=num_steps, report=show)
    if plot_path is not None:
        _plot(found, plot_path)
    if as_json:
        output.print_json({**dataclasses.asdict(found), "base": base})
        return
    click.echo(f"best learning rate       {found.best:.3g}  (at width {width})")
    if found.best in (rates[0], rates[-1]):
        click.echo("It is the last of the grid: a wider range may have a better one.")
    given = click.get_current_context().meta[ARGUMENTS_KEY]
    names = ("--lowest", "--highest", "--steps", "--proxy-width", "--plot")
    settings = {
        "trainer.parametrization.type": "mup",
        "trainer.parametrization.base": json.dumps(base),
        field: f"{found.best:.6g}",
    }
    command = ["quintain", "train", *local_training.strip_flags(given, names), "--model-dir=DIR"]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    click.echo(f"To train the whole model: {shlex.join(command)}")


def _plot(found: Any, path: str) -> None:
    try:
        from matplotlib import figure
    except ImportError as error:
        raise errors.ConfigError(
            "--plot: needs matplotlib; `pip install 'quintain[notebook]'`."
        ) from error
    drawn = figure.Figure(figsize=(7, 4.5), layout="constrained")
    axes = drawn.subplots()
    axes.plot(found.learning_rates, found.losses)
    axes.set(xscale="log", xlabel="learning rate", ylabel="training loss (mean of the last steps)")
    if found.suggestion is not None:
        axes.axvline(found.suggestion, linestyle="--", color="tab:green")
        axes.set_title(f"suggested: {found.suggestion:.3g}")
    drawn.savefig(path)


@tune.command(cls=FlagCommand)
@options.experiment_options
@click.option(
    "--start", type=click.IntRange(min=1), metavar="N", help="First size; the config's by default."
)
@click.option("--most", type=click.IntRange(min=1), metavar="N", help="Largest size to try.")
@click.option(
    "--memory",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.9,
    show_default=True,
    help="Share of the machine's free memory that a process may take.",
)
@output.json_option
def batch(start: int | None, most: int | None, memory: float, as_json: bool, **flags: Any) -> None:
    """Find the largest batch that fits into memory, and the one that trains fastest.

    Each size is tried by a few steps in a process of its own: first sizes that double, then those
    between the last that fitted and the first that did not.
    """
    given = click.get_current_context().meta[ARGUMENTS_KEY]
    arguments = [one for one in given if one not in ("--json", "--traceback")]
    arguments = local_training.strip_flags(arguments, ("--start", "--most", "--memory"))
    limit = int(memory * _read_free_bytes())
    first = start or _read_size(flags)
    tried: dict[int, _Trial] = {}

    def fits(size: int) -> bool:
        tried[size] = found = _try(size, arguments, limit)
        if not as_json:
            click.echo(f"batch {size:>8,}  {found.describe()}", err=True)
        return found.fits

    largest = find_largest(fits, first, most)
    if largest is None:
        raise click.ClickException(
            f"{_BATCH_FIELD}={first} does not fit: {tried[first].problem}. Try a smaller --start."
        )
    fastest = max((one for one in tried.values() if one.fits), key=lambda one: one.rate)
    if as_json:
        rows = [dataclasses.asdict(one) for one in tried.values()]
        output.print_json({"largest": largest, "fastest": fastest.size, "tried": rows})
        return
    click.echo(f"largest batch that fits  {largest}")
    click.echo(f"most examples a second   {fastest.size}  ({fastest.rate:,.0f})")
    click.echo(f"To use it: --set {_BATCH_FIELD}={largest}")


@dataclasses.dataclass(frozen=True)
class _Trial:
    """Result of one batch size."""

    size: int
    fits: bool
    problem: str = ""
    rate: float = 0.0
    """Examples a second."""
    peak_bytes: int = 0

    def describe(self) -> str:
        """Returns it in words."""
        if not self.fits:
            return f"does not fit: {self.problem}"
        return f"fits: {self.peak_bytes / 2**30:.2f} GiB, {self.rate:,.0f} examples a second"


def find_largest(fits: Callable[[int], bool], first: int, most: int | None = None) -> int | None:
    """Returns the largest size that fits, up to an eighth; None if the first does not.

    Args:
        fits: Tries a size.
        first: Where to begin.
        most: The largest to try.

    Example:
        >>> find_largest(lambda size: size <= 100, 8)
        96
    """
    fitting, failing = None, None
    size = first if most is None else min(first, most)
    for _ in range(_MOST_DOUBLINGS):
        if not fits(size):
            failing = size
            break
        fitting = size
        if size == most:
            break
        size = 2 * size if most is None else min(2 * size, most)
    if fitting is None or failing is None:
        return fitting
    step = max(fitting // 8, 1)
    while failing - fitting > step:
        middle = fitting + (failing - fitting) // 2 // step * step
        middle = max(middle, fitting + step)
        if middle >= failing:
            break
        if fits(middle):
            fitting = middle
        else:
            failing = middle
    return fitting


def _try(size: int, arguments: list[str], limit: int) -> _Trial:
    """Trains a few steps with batches of a size."""
    flags = ("--set", f"{_BATCH_FIELD}={size}", "--dry-run", "--mode=train", "--json", "--quiet")
    command = own_commands.build("train", *arguments, *flags)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == -signal.SIGKILL:
        return _Trial(size, False, "the system ended the process, as memory was short")
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        told = "\n".join(lines[-_MOST_LINES:])
        if "memory" in told.lower() or "ResourceExhausted" in told or "OOM" in told:
            return _Trial(size, False, "there is not enough memory")
        raise errors.QuintainError(
            f"With {_BATCH_FIELD}={size} the training fails for another reason than memory:\n{told}"
        )
    found = json.loads(done.stdout)
    rate = found["batch_examples"] / found["step_secs"] if found["step_secs"] else 0.0
    peak = int(found["peak_memory_bytes"])
    if peak > limit:
        problem = f"it takes {peak / 2**30:.2f} GiB, more than --memory allows"
        return _Trial(size, False, problem, rate, peak)
    return _Trial(size, True, "", rate, peak)


def _read_size(flags: dict[str, Any]) -> int:
    """Returns the size that the config has."""
    parse_options = options.build_parse_options(**flags)
    from quintain.run import experiment_parser

    params = experiment_parser.parse(parse_options).params
    return max(int(params.task.train_data.global_batch_size), 1)


def _read_free_bytes() -> int:
    """Returns the memory that processes may still take, the container's limit included."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    meminfo = pathlib.Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
    limit = pathlib.Path("/sys/fs/cgroup/memory.max")
    used = pathlib.Path("/sys/fs/cgroup/memory.current")
    if limit.exists() and used.exists() and (text := limit.read_text().strip()).isdigit():
        free = min(free, int(text) - int(used.read_text()))
    return free
