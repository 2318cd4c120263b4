"""A search on a cluster that Ray's autoscaler makes larger and smaller, all on this machine."""

import contextlib
import importlib.util
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

import pytest

from quintain import store as stores
from quintain.records.rows import states

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

DEADLINE_SECS = 240.0
HOST = "127.0.0.2"
PROVIDER = "ray.autoscaler._private.fake_multi_node.node_provider"
HEAD = 55 * "f" + "0"
CONFIG = """
name: toy
entrypoint: model_def:ToyTrial
data: {secs_per_batch: 0.5, slow_until: HURRY}
hyperparameters: {rate: 0.5}
scheduling_unit: 20
searcher: {name: random, metric: error, max_length: {batches: 60}, max_trials: 3}
"""
LABEL = "resources: {node_labels: {zone: b}}\n"


def find_port():
    with socket.socket() as found:
        found.bind((HOST, 0))
        return found.getsockname()[1]


def describe_cluster(port):
    commands = ("initialization", "setup", "head_setup", "worker_setup")
    starts = ("head_start_ray", "worker_start_ray")
    return {
        "cluster_name": "fake",
        "max_workers": 2,
        "idle_timeout_minutes": 0.02,
        "upscaling_speed": 10.0,
        "provider": {
            # Not `fake_multinode`, whose defaults are in a file that Ray's wheel does not have.
            "type": "external",
            "module": f"{PROVIDER}.FakeMultiNodeProvider",
            "gcs_address": f"{HOST}:{port}",
            "head_node_id": HEAD,
            "launch_multiple": True,
            "use_node_id_as_ip": True,
            "disable_node_updaters": True,
            "disable_launch_config_check": True,
        },
        "auth": {"ssh_user": "nobody"},
        "docker": {},
        **{f"{name}_commands": [] for name in (*commands, *starts)},
        **{name: [] for name in ("cluster_synced_files", "rsync_exclude", "rsync_filter")},
        "file_mounts": {},
        "file_mounts_sync_continuously": False,
        "head_node_type": "ray.head.default",
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
            "other": {"resources": {"CPU": 1}, "node_config": {}, "max_workers": 2},
            "zone_b": {
                "resources": {"CPU": 1},
                "node_config": {},
                "max_workers": 2,
                "labels": {"zone": "b"},
            },
        },
    }


def wait_for(condition):
    deadline = time.monotonic() + DEADLINE_SECS
    while not (found := condition()):
        assert time.monotonic() < deadline, "it was waited for in vain"
        time.sleep(0.5)
    return found


def end(process, directory):
    """Ends a cluster at once: all processes with its directory in their command line."""
    process.kill()
    process.wait()
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if directory.encode() in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)


@pytest.fixture(params=[1, 2])
def version(request):
    """Version of Ray's autoscaler."""
    return request.param


@pytest.fixture
def cluster(version):
    """The address of a cluster without CPUs whose autoscaler may add two nodes of one."""
    if importlib.util.find_spec("ray") is None or importlib.util.find_spec(PROVIDER) is None:
        pytest.skip("This version of Ray has no nodes that are only pretended.")
    port = find_port()
    # Ray's sockets need short paths.
    with tempfile.TemporaryDirectory(prefix="ray_", ignore_cleanup_errors=True) as directory:
        config = pathlib.Path(directory, "cluster.yaml")
        config.write_text(json.dumps(describe_cluster(port)))
        kept = {name: text for name, text in os.environ.items() if not name.startswith("RAY_")}
        own = {
            "RAY_FAKE_CLUSTER": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            # Whatever other clusters have left in the home directory.
            "RAY_AUTH_MODE": "disabled",
            "AUTOSCALER_UPDATE_INTERVAL_S": "1",
            "RAY_OVERRIDE_NODE_ID_FOR_TESTING": HEAD,
            "RAY_enable_autoscaler_v2": str(version - 1),
            "RAY_CLOUD_INSTANCE_ID": HEAD,
        }
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"),
                *(f"--node-ip-address={HOST}", f"--port={port}", "--num-cpus=0"),
                *("--include-dashboard=false", f"--ray-client-server-port={find_port()}"),
                *(f"--temp-dir={directory}/t", f"--autoscaling-config={config}"),
                "--object-store-memory=80000000",
            ],
            env=kept | own,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            wait_for(lambda: can_connect(port))
            yield f"{HOST}:{port}"
        finally:
            end(process, directory)


def can_connect(port):
    with contextlib.suppress(OSError):
        socket.create_connection((HOST, port)).close()
        return True
    return False


def read(home, question):
    store = stores.open_store(home / "quintain.db")
    try:
        with store.reading() as session:
            return question(session)
    finally:
        store.close()


@pytest.mark.long(
    "A second Ray: test_ray.py loses and adds nodes, test_ray_demand.py asks for them"
)
def test_a_search_makes_the_cluster_larger_and_its_end_makes_it_smaller(cluster, version, tmp_path):
    home, hurry = tmp_path / "home", tmp_path / "hurry"
    home.mkdir()
    environment = {**os.environ, "QUINTAIN_HOME": str(home)}
    quintain = (sys.executable, "-m", "quintain.cli.main")

    def run(*arguments):
        return subprocess.run(
            [*quintain, *arguments], env=environment, check=True, capture_output=True, text=True
        ).stdout

    def list_nodes():
        return {each["name"] for each in json.loads(run("node", "list", "--json"))} - {"master"}

    with (home / "out").open("wb") as output:
        master = subprocess.Popen(
            [
                *(*quintain, "master", "start", "--launcher=ray", f"--ray_address={cluster}"),
                *("--ray_max_slots=2", "--ray_idle=1", f"--ray_directory={tmp_path / 'agents'}"),
            ],
            env=environment,
            stdout=output,
            stderr=output,
        )
    try:
        wait_for(lambda: (home / "master.json").exists() or master.poll() is not None)
        config = home / "config.yaml"
        # Version 2 knows which labels nodes will have that it may add.
        text = CONFIG + (LABEL if version == 2 else "")
        config.write_text(text.replace("HURRY", str(hurry)))
        model_dir = pathlib.Path(__file__).parents[1] / "e2e" / "toy_trial"
        run("experiment", "create", str(config), str(model_dir), "--detach", "--no_check")

        def find_asked():
            """Returns what the status says is waited for, once nodes were asked for."""
            shown = json.loads(run("master", "status", "--json"))["status"]
            return shown["slow_start"] if "asked" in shown["slow_start"] else ""

        asked = wait_for(find_asked)
        used = set()

        def is_done():
            used.update(list_nodes())
            if len(used) == 2:
                hurry.touch()
            return read(home, lambda session: session.get_experiment(1)).state.is_terminal

        wait_for(is_done)
        trials = read(home, lambda session: session.list_trials(1))
        wait_for(lambda: not list_nodes())
    finally:
        master.terminate()
        master.wait()

    assert "Waiting for Ray to add nodes: 2 slots asked" in asked
    assert len(used) == 2
    assert {(each.state, each.restarts) for each in trials} == {(states.TrialState.COMPLETED, 0)}
