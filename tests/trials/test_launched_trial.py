"""A Keras trial under the real launcher, with a master that answers from a script."""

import http.server
import json
import pathlib
import threading
import time

import pytest

from quintain.master.placing import slots
from quintain.master.processes import launcher as launcher_lib
from quintain.master.processes import process_launcher
from quintain.records.rows import codec, trial, workload
from quintain.records.views import file_listing

MODEL = """
import keras
import numpy as np
from quintain import trials

class Line(trials.KerasTrial):
    def build_model(self):
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model = self.context.wrap_model(model)
        model.compile(keras.optimizers.SGD(0.1), "mse")
        return model

    def build_training_data_loader(self):
        print("devices", len(__import__("tensorflow").config.list_physical_devices("GPU")))
        x = np.linspace(-1.0, 1.0, 32, dtype="float32")[:, None]
        return trials_data(x)

    def build_validation_data_loader(self):
        x = np.linspace(-1.0, 1.0, 8, dtype="float32")[:, None]
        return trials_data(x)

def trials_data(x):
    import tensorflow as tf
    return tf.data.Dataset.from_tensor_slices((x, 2.0 * x)).batch(4)
"""
KINDS = workload.WorkloadKind
WORKLOADS = [
    workload.Workload(KINDS.TRAIN, 1, 7, number=1, num_batches=5),
    workload.Workload(KINDS.VALIDATE, 1, 7, number=2, total_batches=5),
    workload.Workload(KINDS.CHECKPOINT, 1, 7, number=3, total_batches=5),
    workload.Workload(KINDS.TERMINATE, 1, 7, number=4, total_batches=5),
]


@pytest.fixture
def master(tmp_path):
    """Returns (url, results, exits) of a master with one trial."""
    model_dir = tmp_path / "model"
    model_dir.mkdir()
    (model_dir / "model_def.py").write_text(MODEL)
    spec = trial.TrialOrder(
        experiment_id=1,
        trial_id=7,
        experiment_config={"searcher": {"metric": "val_loss"}},
        hparams={"global_batch_size": 4},
        seed=3,
        entrypoint="model_def:Line",
        num_threads=1,
        code_name="model",
    )
    results, exits = {}, []
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    (checkpoints / file_listing.mark_name(spec.home_id)).touch()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            size = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(size)) if size else None
            launch_id, _, what = (
                self.path.partition("?")[0].partition("/runs")[2][1:].partition("/")
            )
            content = None
            if not launch_id:
                content = codec.to_plain(spec)
            elif what == "workload":
                done = len(results.setdefault(launch_id, {}))
                content = codec.to_plain(WORKLOADS[min(done, 3)])
            elif what == "results":
                result = codec.from_plain(workload.WorkloadResult, body)
                results[launch_id][result.workload.kind] = result
            else:
                exits.append(body)
            data = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = answer  # noqa: N815

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", results, exits
        server.shutdown()
        thread.join()


@pytest.mark.long("tests/master/processes and tests/e2e start copies in every run")
@pytest.mark.slow
@pytest.mark.e2e
def test_trials_start_at_once_in_copies_of_a_warm_process_and_compute_the_same(
    master, tmp_path, monkeypatch
):
    url, results, exits = master
    root = pathlib.Path(process_launcher.__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", str(root))
    launcher = process_launcher.ProcessLauncher()
    servers, codes, lines = set(), {}, []
    for launch_id in ("7-1", "7-2"):
        launcher.start(
            launcher_lib.LaunchRequest(
                launch_id,
                7,
                1,
                (slots.Slot(0, num_threads=1),),
                {
                    "QUINTAIN_MASTER": url,
                    "QUINTAIN_MASTER_HOME": str(tmp_path),
                    "QUINTAIN_TRIAL_ID": "7",
                    "QUINTAIN_LAUNCH_ID": launch_id,
                },
                str(tmp_path / "scratch"),
            )
        )
        servers |= {forker._server._process.pid for forker in launcher._forkers.values()}
        deadline = time.monotonic() + 300.0
        while launch_id not in codes and time.monotonic() < deadline:
            codes |= {found.launch_id: found.exit_code for found in launcher.poll()}
            lines += [row.text for row in launcher.read_logs()]
            time.sleep(0.01)
    slowness = launcher.find_slowness()
    launcher.close(kill=True)
    assert exits == []
    assert codes == {"7-1": 0, "7-2": 0}, lines
    assert list(results["7-1"]) == [task.kind for task in WORKLOADS]
    assert "devices 0" in lines
    first, second = results["7-1"], results["7-2"]
    assert len(first[KINDS.TRAIN].batch_metrics) == 5
    # The copies share no state: the same seed gives the same numbers.
    assert first[KINDS.TRAIN].batch_metrics == second[KINDS.TRAIN].batch_metrics
    assert first[KINDS.VALIDATE].metrics == second[KINDS.VALIDATE].metrics
    # Nothing was imported anew for the second one.
    assert (len(servers), slowness) == (1, "")
