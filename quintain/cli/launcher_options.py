"""Options of `quintain master start` that say where trials run."""

from typing import TYPE_CHECKING, Any, Final

import click

from quintain import errors
from quintain.cli import options
from quintain.client import address

if TYPE_CHECKING:
    from quintain.server import launchers

RAY: Final = "ray"

_RAY_OPTIONS: Final = (
    *("ray_address", "ray_master", "ray_slots", "ray_threads_per_slot", "ray_directory"),
    *("ray_max_slots", "ray_idle"),
)
launcher_options = options.combine(
    click.option(
        "--launcher",
        type=click.Choice(["local", "agents", RAY]),
        default="agents",
        show_default=True,
        help="Where trials run: on this machine only; also on those whose agents join; or also on "
        "the nodes of a Ray cluster, and then on this machine only with --slots.",
    ),
    click.option(
        "--node-timeout",
        type=click.FloatRange(min=1.0, max=86400.0),
        default=30.0,
        show_default=True,
        metavar="SECS",
        help="A machine of which nothing was heard for so long is lost.",
    ),
    click.option(
        "--ray-address",
        metavar="ADDRESS",
        help="The Ray cluster: auto for that of this machine, HOST:PORT, ray://HOST:PORT, or local "
        "for one of this machine alone.  [default: auto]",
    ),
    click.option(
        "--ray-master",
        metavar="URL",
        help="Where nodes find this master, if that is not where it listens: behind a proxy, say.",
    ),
    click.option(
        "--ray-slots",
        type=click.IntRange(min=1),
        metavar="N",
        help="Slots of each node.  [default: one for each GPU, or shares of the CPUs]",
    ),
    click.option(
        "--ray-threads-per-slot",
        type=click.IntRange(min=1),
        metavar="N",
        help="CPUs of each slot on a node.  [default: an equal share]",
    ),
    click.option(
        "--ray-directory",
        metavar="DIR",
        help="Directory on the nodes for processes, code and checkpoints.  "
        "[default: below ~/.cache/quintain]",
    ),
    click.option(
        "--ray-max-slots",
        type=click.IntRange(min=1),
        metavar="N",
        help="Ask Ray's autoscaler for nodes that trials wait for, up to N slots in all, and give "
        "idle nodes back.  [default: the nodes that are there]",
    ),
    click.option(
        "--ray-idle",
        type=click.FloatRange(min=1.0, max=86400.0),
        metavar="SECS",
        help="With --ray-max-slots, a node on which nothing runs for so long is given back.  "
        "[default: 60]",
    ),
)
"""Adds the options to a command; `build_launchers` takes what they gave."""


def build_launchers(given: dict[str, Any]) -> "launchers.LauncherSettings":
    """Returns what the options say.

    Args:
        given: All that a command was given; the options are taken out of it.

    Raises:
        ConfigError: If they contradict each other.
    """
    from quintain.cluster.ray import ray_messages
    from quintain.server import launchers

    kind, timeout_secs = given.pop("launcher", "agents"), given.pop("node_timeout", 30.0)
    by_ray = {name: given.pop(name, None) for name in _RAY_OPTIONS}
    wrong = [name for name, value in by_ray.items() if value is not None]
    if wrong and kind != RAY:
        flag = wrong[0].replace("_", "-")
        raise errors.ConfigError(f"--{flag}: is for --launcher=ray, but got {kind!r}.")
    max_slots, idle_secs = by_ray["ray_max_slots"], by_ray["ray_idle"]
    if idle_secs is not None and max_slots is None:
        raise errors.ConfigError(
            "--ray-idle: is for clusters that grow and shrink; give --ray-max-slots=N, too."
        )
    growth = None
    if max_slots is not None:
        growth = ray_messages.Growth(max_slots, idle_secs or ray_messages.Growth.idle_secs)
    url = by_ray["ray_master"]
    return launchers.LauncherSettings(
        launchers.LauncherKind(kind),
        timeout_secs,
        ray_messages.Settings(
            address=by_ray["ray_address"] or "auto",
            slots=by_ray["ray_slots"],
            threads_per_slot=by_ray["ray_threads_per_slot"],
            directory=by_ray["ray_directory"] or "",
            master_url=address.parse_url(url, name="--ray-master") if url else "",
        ),
        growth,
    )
