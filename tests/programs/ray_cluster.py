"""A Ray cluster on this machine, whose nodes come and go as it is told.

Commands and answers are lines of JSON. It says `{"address": ...}` first.

    {"do": "add", "cpus": 2, "gpus": 0, "labels": {}}   {"id": ..., "pid": ...}
    {"do": "kill", "id": ...}       kills the node, and what Ray has started there
    {"do": "drain", "id": ..., "secs": 60}
    {"do": "actors"}                {"actors": [...]}

It ends, and the cluster with it, when its input does.
"""

import contextlib
import importlib
import json
import os
import pathlib
import signal
import sys
import time

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# Its server starts slowly while other tests begin, too.
os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "120")
# Ray takes 127.0.0.1 for an address that others can't reach, and another one instead.
HOST = "127.0.0.2"


class Nodes:
    """The nodes of a cluster; the first one has no CPUs."""

    def __init__(self, ray, cluster_utils):
        self._ray = ray
        self._cluster = cluster_utils.Cluster()
        head = {"num_cpus": 0, "include_dashboard": False, "node_ip_address": HOST}
        try:
            self._cluster.add_node(**head)
        except Exception:  # noqa: BLE001 - whatever Ray raises when a node took more than its 30 s
            self._cluster = cluster_utils.Cluster()
            self._cluster.add_node(**head)
        self.address = self._cluster.address
        self._nodes = {}

    def add(self, cpus=2, gpus=0, labels=None):
        node = self._cluster.add_node(
            num_cpus=cpus, num_gpus=gpus, labels=labels or {}, node_ip_address=HOST
        )
        [raylet] = node.all_processes["raylet"]
        self._nodes[node.node_id] = node
        return {"id": node.node_id, "pid": raylet.process.pid}

    def kill(self, id):
        node = self._nodes.pop(id)
        [raylet] = node.all_processes["raylet"]
        children = find_children(raylet.process.pid)
        for pid in (raylet.process.pid, *children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._cluster.remove_node(node, allow_graceful=False)
        return {"children": children}

    def drain(self, id, secs=60):
        autoscaler = importlib.import_module("ray.core.generated.autoscaler_pb2")
        reason = autoscaler.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
        client = self._ray._raylet.GcsClient(address=self.address)
        accepted, problem = client.drain_node(
            id, reason, "a spot machine", int((time.time() + secs) * 1000)
        )
        return {"accepted": accepted, "problem": problem}

    def actors(self):
        state = self._cluster.global_state
        return {"actors": [str(each) for each in state.actor_table(None).values()]}

    def close(self):
        self._cluster.shutdown()


def find_children(parent):
    """Returns the processes that another one has started."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent:
                found.append(int(entry.name))
    return found


def main():
    directory = pathlib.Path(os.environ["RAY_TMPDIR"]) / "ray"
    directory.mkdir(parents=True, exist_ok=True)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    # It reads its variables when it is imported.
    nodes = Nodes(importlib.import_module("ray"), importlib.import_module("ray.cluster_utils"))
    print(json.dumps({"address": nodes.address}), file=answers, flush=True)
    for line in sys.stdin:
        content = json.loads(line)
        answer = getattr(nodes, content.pop("do"))(**content)
        print(json.dumps(answer), file=answers, flush=True)
    nodes.close()


if __name__ == "__main__":
    main()
