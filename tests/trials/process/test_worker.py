import contextlib
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from quintain import errors
from quintain.client.home import handed_tokens
from quintain.client.http import connection
from quintain.records import process_identity
from quintain.records.rows import codec, exit_codes, trial, workload
from quintain.trials.process import worker

QUICK = connection.Retries(total_secs=60.0, first_pause_secs=0.01, max_pause_secs=0.05)
NONE = connection.Retries(total_secs=0.0)
TRAIN = workload.Workload(workload.WorkloadKind.TRAIN, 1, 7, number=1, num_batches=2)
TERMINATE = workload.Workload(workload.WorkloadKind.TERMINATE, 1, 7, number=2, total_batches=2)


class Master:
    """A master that hands out one workload after the other, each until its result is there."""

    def __init__(self, spec, workloads, port=0):
        self.spec = spec
        self.workloads = list(workloads)
        self.results = {}
        self.starts = []
        self.exits = []
        self.polls = 0
        self.is_wanted = True
        self.refusals = []
        self.takes_results = True
        self.sockets = []
        self.notes = []
        master = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                master.sockets.append(self.connection)

            def answer(self):
                size = int(self.headers.get("Content-Length", 0))
                body = json.loads(self.rfile.read(size)) if size else None
                status, content = master.answer(self.path, body)
                data = b"" if content is None else json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = answer  # noqa: N815

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def answer(self, path, body):
        if self.refusals:
            status, kind = self.refusals.pop(0)
            return status, {"error": {"kind": kind, "message": "refused"}}
        if path.endswith("/runs"):
            self.starts.append(codec.from_plain(trial.ProcessIdentity, body))
            return 200, codec.to_plain(self.spec)
        if not self.is_wanted:
            return 410, {"error": {"kind": "GoneError", "message": "killed"}}
        if path.endswith("/steps"):
            self.notes.append(body)
        elif path.endswith("/exit"):
            self.exits.append(body)
        elif path.endswith("/results"):
            if not self.takes_results:
                return 409, {"error": {"kind": "StateError", "message": "late"}}
            result = codec.from_plain(workload.WorkloadResult, body)
            self.results.setdefault(result.workload.number, result)
            return 200, None
        else:
            self.polls += 1
            for task in self.workloads:
                if task.number not in self.results:
                    return 200, codec.to_plain(task)
            time.sleep(0.01)
            return 204, None
        return 200, {}

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        for opened in self.sockets:
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
        self.thread.join()


@pytest.fixture
def spec():
    return trial.TrialOrder(
        experiment_id=1,
        trial_id=7,
        experiment_config={},
        hparams={},
        seed=3,
        entrypoint=None,
        code_name="experiments/1/model_dir",
    )


@pytest.fixture
def start_master(spec, tmp_path):
    started = []

    def start(*workloads, port=0):
        started.append(Master(spec, workloads, port))
        started[-1].scratch_dir = tmp_path / "scratch"
        return started[-1]

    yield start
    for master in started:
        if master.thread.is_alive():
            master.stop()


def variables(master, **changes):
    return {
        "QUINTAIN_MASTER": master.url,
        "QUINTAIN_TRIAL_ID": "7",
        "QUINTAIN_LAUNCH_ID": "7-1",
        "QUINTAIN_SCRATCH": str(master.scratch_dir),
        "QUINTAIN_MASTER_HOME": str(master.scratch_dir.parent),
        **changes,
    }


@pytest.fixture
def make_source():
    """Returns a function that connects to a master."""
    with contextlib.ExitStack() as stack:

        def make(master, retries=QUICK, **changes):
            settings = worker.Settings.from_environment(variables(master, **changes))
            opened = stack.enter_context(connection.Connection(settings.address, retries=retries))
            return worker.HttpWorkloadSource(settings, opened)

        yield make


def result_of(task, **changes):
    return workload.WorkloadResult(task, 1.0, 2.0, **changes)


def follow(source):
    """Does every workload at once, like a trial without a model."""
    source.start()
    while True:
        task = source.next_workload()
        source.report(result_of(task, metrics={"loss": 0.5}))
        if task.kind is workload.WorkloadKind.TERMINATE:
            return exit_codes.ExitCode.DONE


def test_a_trial_gets_its_workloads_and_hands_in_its_results(start_master, monkeypatch):
    monkeypatch.setattr(worker.workload_loop, "run", follow)
    master = start_master(TRAIN, TERMINATE)
    assert worker.main(variables(master)) == exit_codes.ExitCode.DONE
    assert [result.workload for result in master.results.values()] == [TRAIN, TERMINATE]
    assert master.results[1].metrics == {"loss": 0.5}
    assert os.listdir(master.scratch_dir) == []


def test_a_master_that_does_not_listen_holds_up_no_note_of_steps(start_master, make_source):
    master = start_master(TRAIN)
    source = make_source(master)
    source.note_steps(1, 3)
    master.is_wanted = False
    source.note_steps(1, 4)
    master.stop()
    source.note_steps(1, 5)
    assert (master.notes, source.is_lost) == ([{"number": 1, "batches": 3}], False)


def test_the_master_is_told_which_process_it_is(start_master, make_source):
    master = start_master()
    make_source(master).start()
    assert master.starts == [process_identity.find(os.getpid(), "7-1")]


def test_what_a_trial_starts_does_not_get_its_token(start_master, monkeypatch):
    seen = []
    monkeypatch.setattr(worker.workload_loop, "run", lambda _: seen.append(dict(os.environ)) or 0)
    monkeypatch.setenv("QUINTAIN_TOKEN", "secret")
    for name, value in variables(start_master()).items():
        monkeypatch.setenv(name, value)
    assert worker.main() == 0
    assert "QUINTAIN_TOKEN" not in seen[0]
    assert "secret" not in seen[0].values()


def test_a_fresh_process_reads_its_token_from_a_pipe_once(start_master, monkeypatch):
    environment = {**variables(start_master()), handed_tokens.VARIABLE: "7/7-1/secret"}
    handed_tokens.hide(environment)
    assert "7/7-1/secret" not in environment.values()
    assert worker.Settings.from_environment(environment).address.token == "7/7-1/secret"
    assert worker.Settings.from_environment(environment).address.token == ""
    assert handed_tokens.read({handed_tokens.DESCRIPTOR: "99999"}) == ""
    assert handed_tokens.read({handed_tokens.DESCRIPTOR: "none"}) == ""


def test_processes_of_a_launch_have_a_key_of_their_own_that_does_not_tell_its_token(
    start_master, make_source
):
    master = start_master()
    tokens = {"first": "7/7-1/a", "same": "7/7-1/a", "other": "7/7-2/b"}
    specs = {
        name: make_source(master, QUINTAIN_TOKEN=token).start() for name, token in tokens.items()
    }

    keys = {name: spec.exchange_key for name, spec in specs.items()}
    assert keys["first"] == keys["same"] != keys["other"]
    assert len(keys["first"]) == 32
    assert repr(keys["first"]) not in repr(specs["first"])


def test_a_master_that_does_not_know_the_token_has_no_use_for_the_trial(start_master, make_source):
    master = start_master(TRAIN)
    master.refusals = [(401, "UnauthorizedError")]
    settings = worker.Settings.from_environment(variables(master))
    with connection.Connection(settings.address, retries=NONE) as opened:
        assert worker.run(settings, opened) == exit_codes.ExitCode.NOT_WANTED


def test_a_workload_is_waited_for(start_master, make_source):
    master = start_master()
    source = make_source(master)
    source.start()

    def give_at_the_third_time():
        while master.polls < 3:
            time.sleep(0.01)
        master.workloads.append(TRAIN)

    giving = threading.Thread(target=give_at_the_third_time, daemon=True)
    giving.start()
    assert source.next_workload() == TRAIN
    assert master.polls >= 3
    giving.join()


def test_a_result_waits_for_a_master_that_is_restarted(start_master, make_source):
    master = start_master(TRAIN)
    source = make_source(master)
    source.start()
    source.next_workload()
    master.stop()
    again = []
    timer = threading.Timer(0.2, lambda: again.append(start_master(TRAIN, port=master.port)))
    timer.start()
    source.report(result_of(TRAIN))
    timer.join()
    assert again[0].results == {1: result_of(TRAIN)}


def test_a_result_that_could_not_be_handed_in_is_kept_and_sent_later(
    start_master, make_source, tmp_path
):
    master = start_master(TRAIN)
    source = make_source(master, retries=NONE)
    source.start()
    master.stop()
    result = result_of(TRAIN, metrics={"loss": float("nan")})
    with pytest.raises(errors.MasterUnreachableError):
        source.report(result)
    assert source.is_lost
    assert os.listdir(tmp_path / "scratch") == ["7-1.spool"]
    # Nobody is there to be told; that must not take another hour.
    source.report_exit(workload.ExitedReason.ERRORED, "lost")
    again = start_master(TRAIN, TERMINATE)
    later = make_source(again)
    later.start()
    assert again.results[1].metrics == {"loss": "NaN"}
    assert os.listdir(tmp_path / "scratch") == []
    assert later.next_workload() == TERMINATE


def test_a_kept_result_that_nobody_needs_is_dropped(start_master, make_source, tmp_path):
    spool = tmp_path / "scratch" / "7-1.spool"
    spool.parent.mkdir()
    for text in ("", "\0" * 9, "{", "{}", "[]", json.dumps(codec.to_plain(result_of(TRAIN)))):
        spool.write_text(text)
        master = start_master(TRAIN)
        source = make_source(master)
        master.takes_results = False
        source.start()
        assert not spool.exists()


def test_a_master_that_forgot_the_process_is_told_again(start_master, make_source):
    master = start_master(TRAIN)
    source = make_source(master)
    source.start()
    master.refusals = [(404, "NotFoundError")]
    assert source.next_workload() == TRAIN
    assert len(master.starts) == 2


def test_a_run_that_is_not_wanted_ends_in_order(start_master, monkeypatch, caplog):
    monkeypatch.setattr(worker.workload_loop, "run", follow)
    master = start_master(TRAIN)
    master.is_wanted = False
    assert worker.main(variables(master)) == exit_codes.ExitCode.NOT_WANTED
    assert "not wanted any more" in caplog.text


def test_a_trial_that_was_deleted_is_not_wanted(start_master, monkeypatch):
    monkeypatch.setattr(worker.workload_loop, "run", follow)
    master = start_master()
    master.refusals = [(404, "NotFoundError")]
    assert worker.main(variables(master)) == exit_codes.ExitCode.NOT_WANTED


def test_a_master_that_is_away_for_too_long_ends_the_process(start_master, monkeypatch, capsys):
    monkeypatch.setattr(worker, "RETRIES", NONE)
    monkeypatch.setattr(worker.workload_loop, "run", follow)
    master = start_master()
    master.stop()
    assert worker.main(variables(master)) == exit_codes.ExitCode.LOST_MASTER
    assert f"No master answers at {master.url}" in capsys.readouterr().err


def test_a_loop_that_ends_because_the_master_is_gone_says_so(start_master, monkeypatch):
    monkeypatch.setattr(worker, "RETRIES", NONE)
    master = start_master(TRAIN)

    def run(source):
        source.start()
        master.stop()
        with contextlib.suppress(errors.MasterUnreachableError):
            source.report(result_of(TRAIN))
        source.report_exit(workload.ExitedReason.ERRORED, "lost")
        return exit_codes.ExitCode.ERROR

    monkeypatch.setattr(worker.workload_loop, "run", run)
    assert worker.main(variables(master)) == exit_codes.ExitCode.LOST_MASTER


def test_workers_wait_an_hour():
    assert worker.RETRIES.total_secs == 3600.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"QUINTAIN_MASTER": ""}, "QUINTAIN_MASTER: missing"),
        ({"QUINTAIN_LAUNCH_ID": ""}, "QUINTAIN_LAUNCH_ID: missing"),
        ({"QUINTAIN_SCRATCH": ""}, "QUINTAIN_SCRATCH: missing"),
        ({"QUINTAIN_TRIAL_ID": "x"}, "QUINTAIN_TRIAL_ID: got 'x'"),
    ],
)
def test_an_environment_that_is_wrong_is_told(start_master, capsys, changes, message):
    assert worker.main(variables(start_master(), **changes)) == exit_codes.ExitCode.ERROR
    assert message in capsys.readouterr().err


def test_threads_are_limited_before_tensorflow_computes(
    start_master, make_source, spec, monkeypatch
):
    for name in worker._THREAD_VARIABLES:
        monkeypatch.setenv(name, "9")
    calls = []

    class Threading:
        set_intra_op_parallelism_threads = calls.append
        set_inter_op_parallelism_threads = calls.append

    module = type(sys)("tensorflow")
    module.config = type("Config", (), {"threading": Threading})
    monkeypatch.setitem(sys.modules, "tensorflow", module)
    master = start_master()
    make_source(master).start()
    assert calls == []
    master.spec = trial.TrialOrder(**{**codec.to_plain(spec), "num_threads": 2})
    make_source(master).start()
    assert [os.environ[name] for name in worker._THREAD_VARIABLES] == ["2", "2"]
    assert calls == [2, 2]


def test_threads_of_libraries_that_were_loaded_before_are_limited():
    pytest.importorskip("sklearn.utils._openmp_helpers")
    threadpoolctl = pytest.importorskip("threadpoolctl")
    pools = threadpoolctl.ThreadpoolController().select(user_api="openmp")
    with pools.limit(limits=5):
        worker._limit_openmp(3)
        assert {pool["num_threads"] for pool in pools.info()} == {3}


@pytest.mark.slow
def test_a_process_that_waits_for_its_master_ends_at_once_when_it_is_told(tmp_path):
    environment = {
        **os.environ,
        "QUINTAIN_MASTER": "http://127.0.0.1:9",
        "QUINTAIN_TRIAL_ID": "7",
        "QUINTAIN_LAUNCH_ID": "7-1",
        "QUINTAIN_SCRATCH": str(tmp_path),
        "QUINTAIN_MASTER_HOME": str(tmp_path),
    }
    with subprocess.Popen(
        [sys.executable, "-m", "quintain.trials.process.worker"],
        env=environment,
        stderr=subprocess.PIPE,
    ) as process:
        # It says so when its pauses are long.
        assert b"The master does not answer" in process.stderr.readline()
        process.terminate()
        # By the signal itself: it would end with a code of its own after its pause.
        assert process.wait(60.0) == -signal.SIGTERM
