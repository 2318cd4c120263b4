import dataclasses
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from quintain import errors
from quintain.master.placing import slots
from quintain.master.processes import (
    fork_server,
    process_files,
    process_launcher,
    starters,
    supervisor,
)
from quintain.records import process_identity
from quintain.records.rows import exit_codes, log

pytestmark = pytest.mark.slow

FORK = process_launcher.StartMethod.FORK
_STARTS_THREAD = """
import threading
import time

threading.Thread(target=time.sleep, args=(99.0,), daemon=True).start()
"""


def read_all(launcher):
    rows = []
    while new := launcher.read_logs():
        rows += new
    return rows


def is_running(pid):
    return process_identity.find(pid) is not None


def find_parent(identity):
    return int(pathlib.Path(f"/proc/{identity.pid}/stat").read_text().split()[3])


def wait_until_none_runs(pids):
    deadline = time.monotonic() + 20.0
    while any(map(is_running, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def wait_until_gone(identity):
    deadline = time.monotonic() + 20.0
    while process_identity.is_alive(identity):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.long("What follows the start is the same for both ways to start", but=["fork"])
def test_every_line_is_kept_with_its_source_and_time(harness, launcher):
    before = time.time()
    harness.start(launcher, "write")
    found = harness.wait_for_exit(launcher)
    rows = read_all(launcher)
    assert (found.exit_code, found.signal, found.out_of_memory) == (3, None, False)
    assert (found.launch_id, found.trial_id) == ("7-1", 7)
    outputs = [row.text for row in rows if row.source is log.LogSource.STDOUT]
    assert outputs == [
        "what write",
        "from C, in two pieces",
        "100 %",
        "\N{REPLACEMENT CHARACTER}",
        "",
        "no end of line",
    ]
    assert [row.text for row in rows if row.source is log.LogSource.STDERR] == ["warning"]
    assert set(found.last_lines) == {row.text for row in rows}
    assert all(before - 0.1 < row.time < time.time() + 0.1 for row in rows)
    assert {row.trial_id for row in rows} == {7}


@pytest.mark.long("What follows the start is the same for both ways to start", but=["fork"])
def test_logs_are_deleted_once_they_were_kept(harness, launcher):
    harness.start(launcher, "write")
    harness.wait_for_exit(launcher)
    assert (harness.scratch_dir / "7-1.log").exists()
    assert read_all(launcher)
    assert launcher.read_logs() == []
    assert (harness.scratch_dir / "7-1.log").exists()
    launcher.forget("7-1")
    assert launcher.read_logs() == []
    assert list(harness.scratch_dir.iterdir()) == []
    assert launcher.poll() == []


def test_an_exit_waits_for_all_lines_before_it(harness, monkeypatch):
    monkeypatch.setattr(process_files, "MOST_BYTES_AT_ONCE", 2000)
    launcher = harness.make()
    identity = harness.start(launcher, "many")
    wait_until_gone(identity)
    texts, exits = [], []
    while not exits:
        exits = launcher.poll()
        texts += [row.text for row in launcher.read_logs()]
    assert texts == ["what many", *(f"line {number}" for number in range(300))]


def test_a_process_gets_its_slots_and_its_variables(harness, launcher):
    own = (
        slots.Slot(1, slots.SlotKind.GPU, "2", num_threads=3),
        slots.Slot(4, slots.SlotKind.GPU, "GPU-ab", num_threads=1),
    )
    harness.start(launcher, "environment", variables={"DATA": "ä b"}, own_slots=own)
    harness.wait_for_exit(launcher)
    lines = [row.text for row in read_all(launcher)]
    for line in (
        "DATA=ä b",
        "QUINTAIN_SLOTS=1,4",
        "CUDA_VISIBLE_DEVICES=2,GPU-ab",
        "TF_NUM_INTRAOP_THREADS=4",
        "OMP_NUM_THREADS=4",
    ):
        assert line in lines


def test_cpu_slots_hide_the_gpus(harness):
    launcher = harness.make()
    harness.start(launcher, "environment", own_slots=(slots.Slot(0),))
    harness.wait_for_exit(launcher)
    lines = [row.text for row in read_all(launcher)]
    assert "CUDA_VISIBLE_DEVICES=-1" in lines
    assert not any(line.startswith("TF_NUM_INTRAOP_THREADS") for line in lines)


@pytest.mark.long("What follows the start is the same for both ways to start", but=["fork"])
@pytest.mark.parametrize(
    ("what", "code", "line"),
    [
        ("raise", exit_codes.ExitCode.ERROR, "ValueError: broken on purpose"),
        ("exit", exit_codes.ExitCode.ERROR, "told so"),
    ],
)
def test_errors_are_shown_as_an_interpreter_shows_them(harness, launcher, what, code, line):
    harness.start(launcher, what)
    found = harness.wait_for_exit(launcher)
    assert found.exit_code == code
    assert found.last_lines[-1] == line
    assert not found.out_of_memory


@pytest.mark.long("What follows the start is the same for both ways to start", but=["fork"])
def test_a_crash_is_told_by_its_signal(harness, launcher):
    harness.start(launcher, "abort")
    found = harness.wait_for_exit(launcher)
    assert (found.exit_code, found.signal) == (None, signal.SIGABRT)
    # The interpreter tells where it was.
    assert any("tiny_worker.py" in line for line in found.last_lines)


def test_a_lack_of_memory_is_told(harness):
    launcher = harness.make()
    harness.start(launcher, "memory")
    found = harness.wait_for_exit(launcher)
    assert found.out_of_memory
    assert found.exit_code == exit_codes.ExitCode.OUT_OF_MEMORY


@pytest.mark.long("What follows the start is the same for both ways to start", but=["fork"])
def test_a_process_is_killed_with_what_it_started(harness, launcher):
    identity = harness.start(launcher, "child")
    rows = harness.wait_for_line(launcher, "ready")
    child = next(int(row.text.split()[1]) for row in rows if row.text.startswith("child"))
    assert is_running(child)
    launcher.kill("7-1")
    found = harness.wait_for_exit(launcher)
    assert found.signal == signal.SIGTERM
    assert not found.out_of_memory
    assert not process_identity.is_alive(identity)
    assert not is_running(child)


def test_a_process_that_ignores_sigterm_is_forced(harness):
    launcher = harness.make(grace_secs=0.2)
    harness.start(launcher, "ignore SIGTERM")
    harness.wait_for_line(launcher, "ready")
    launcher.kill("7-1")
    found = harness.wait_for_exit(launcher)
    assert found.signal == signal.SIGKILL
    assert not found.out_of_memory


@pytest.mark.long("What follows the start is the same for both ways to start", but=["fork"])
def test_what_a_process_leaves_behind_ends_with_it(harness, launcher):
    harness.start(launcher, "child", variables={"CHILD_OUTLIVES": "1"})
    assert harness.wait_for_exit(launcher).exit_code == 0
    child = next(
        int(row.text.split()[1]) for row in read_all(launcher) if row.text.startswith("child")
    )
    assert not is_running(child)


def test_processes_are_forked_from_one_that_has_imported_the_modules(harness):
    launcher = harness.make()
    harness.start(launcher, "modules")
    harness.start(launcher, "modules", launch_id="7-2")
    harness.wait_for_exit(launcher, 2)
    lines = [row.text for row in read_all(launcher) if row.text.startswith("preloaded")]
    assert [line.split()[1] for line in lines] == ["True", "True"]


def test_processes_look_for_garbage_but_not_among_what_was_imported_ahead(harness):
    launcher = harness.make(preloaded=("colorsys",))
    harness.start(launcher, "garbage")
    harness.wait_for_exit(launcher)
    rows = [row.text for row in read_all(launcher)]
    assert "looked for True among False" in rows


def test_variables_of_an_experiment_get_a_server_of_their_own_that_starts_with_them(harness):
    launcher = harness.make()
    variables = {"TZ": "Probe-5:30", "PYTHONHASHSEED": "0"}
    harness.start(launcher, "early", variables=variables)
    harness.start(launcher, "early", launch_id="7-2")
    harness.wait_for_exit(launcher, 2)
    shown = [row.text for row in read_all(launcher)]
    assert sum("Probe" in text for text in shown) == 1
    assert "05:30 0" in shown
    assert [early for _, early in launcher._forkers] == [tuple(sorted(variables.items())), ()]


def test_what_is_run_aside_has_its_variables_from_the_start(harness, tmp_path):
    launcher = harness.make()
    request = supervisor.StartRequest(
        "check", str(tmp_path), {"QUINTAIN_TINY": "early", "TZ": "Probe-5:30"},
        "tests.master.tiny_worker:main", (),
    )  # fmt: skip
    found = launcher.run_aside(request, "", threading.Event())
    assert any("Probe" in line for line in found.last_lines)


def test_code_made_of_graphs_gets_a_server_that_has_imported_what_it_needs(harness, tmp_path):
    launcher = harness.make()
    (tmp_path / "model_def.py").write_text("class Digits(TensorFlowTrial): ...")
    for model_dir in ("", str(tmp_path)):
        launcher.warm_up(model_dir)
    assert [modules for modules, _ in launcher._forkers] == [
        ("colorsys",),
        ("colorsys", "quintain.trials.graphs.graph_libraries"),
    ]


def test_libraries_of_the_code_are_imported_with_the_variables_of_the_experiment(harness, tmp_path):
    launcher = harness.make()
    (tmp_path / "model_def.py").write_text("import scipy\nclass Digits(KerasTrial): ...")
    for variables in (
        {"HF_HOME": "/data", "QUINTAIN_TRIAL_ID": "7"},
        {"QUINTAIN_TRIAL_ID": "8"},
        {"PYTHONPATH": "/elsewhere"},
    ):
        launcher._get_forker(str(tmp_path), variables)
    assert list(launcher._forkers) == [
        (("colorsys", "scipy"), (("HF_HOME", "/data"),)),
        (("colorsys", "scipy"), ()),
        (("colorsys",), (("PYTHONPATH", "/elsewhere"),)),
    ]


def test_servers_that_were_not_used_for_long_are_closed(harness):
    launcher = harness.make()
    for number in range(5):
        harness.start(
            launcher, "", launch_id=f"7-{number}", variables={"TF_TEST_NUMBER": str(number)}
        )
    assert [dict(early)["TF_TEST_NUMBER"] for _, early in launcher._forkers] == ["2", "3", "4"]
    harness.wait_for_exit(launcher, 5)


def test_a_server_is_closed_a_while_after_the_last_process_and_started_again(harness):
    launcher = harness.make(idle_secs=0.2)
    harness.start(launcher, "wait")
    (forker,) = launcher._forkers.values()
    launcher._busy_at -= 99.0
    assert launcher.poll() == []
    assert launcher._forkers
    launcher.kill("7-1")
    harness.wait_for_exit(launcher)
    launcher._busy_at -= 99.0
    launcher.poll()
    assert not launcher._forkers
    assert forker._server is None
    harness.start(launcher, "", launch_id="7-2")
    assert harness.wait_for_exit(launcher).launch_id == "7-2"


def test_a_fork_server_that_died_is_started_again_and_its_processes_go_on(harness, caplog):
    launcher = harness.make()
    harness.start(launcher, "wait")
    (forker,) = launcher._forkers.values()
    os.kill(forker._server._process.pid, signal.SIGKILL)
    harness.start(launcher, "", launch_id="7-2")
    assert harness.wait_for_exit(launcher).launch_id == "7-2"
    assert "started again" in caplog.text
    launcher.kill("7-1")
    assert harness.wait_for_exit(launcher).signal == signal.SIGTERM


def list_supervisors(harness, launcher, count):
    """Starts processes one after the other, and returns their parents."""
    rows = []
    for number in range(count):
        harness.start(launcher, "descriptors", launch_id=f"7-{number}")
        assert harness.wait_for_exit(launcher).exit_code == 0
        time.sleep(0.05)  # The supervisor says afterwards that it is free.
        rows += [row.text for row in read_all(launcher) if row.text.startswith("sockets")]
        launcher.forget(f"7-{number}")
        launcher.read_logs()
    assert [row.split()[1] for row in rows] == ["0"] * count
    return [int(row.split()[3]) for row in rows]


def test_a_supervisor_watches_over_one_process_after_the_other(harness):
    launcher = harness.make()
    waiting = [harness.start(launcher, "wait", launch_id=f"8-{number}") for number in range(2)]
    parents = list_supervisors(harness, launcher, 6)
    assert len(set(parents)) < 6
    assert not set(parents) & set(map(find_parent, waiting))
    assert all(map(process_identity.is_alive, waiting))


def test_a_supervisor_that_died_without_a_process_is_replaced(harness):
    launcher = harness.make()
    for parent in set(list_supervisors(harness, launcher, 3)):
        os.kill(parent, signal.SIGKILL)
    assert len(list_supervisors(harness, launcher, 2)) == 2


def test_a_process_that_could_not_be_started_costs_no_supervisor(harness):
    launcher = harness.make()
    waiting = [harness.start(launcher, "wait", launch_id=f"8-{number}") for number in range(3)]
    parents = set(map(find_parent, waiting))
    for number in range(3):
        launcher.kill(f"8-{number}")
        harness.wait_for_exit(launcher)

    with pytest.raises(errors.QuintainError, match=r"launch 9-1 could not be started"):
        harness.start(
            launcher, "write", launch_id="9-1", variables={"QUINTAIN_A=B": "no such name"}
        )

    assert all(map(is_running, parents))
    harness.start(launcher, "write", launch_id="9-2")
    assert harness.wait_for_exit(launcher).exit_code == 3


@pytest.mark.parametrize("has_read", [True, False])
def test_another_supervisor_is_asked_only_if_one_was_gone_before_it_read_the_request(has_read):
    own, end = socket.socketpair()
    other, kept = socket.socketpair()
    supervisors = fork_server._Supervisors(kept)
    if has_read:
        reader = threading.Thread(target=lambda: (end.recv(99), end.close()))
        reader.start()
    else:
        end.close()

    answer = supervisors._ask(own, b"request")

    assert answer == (b"" if has_read else None)
    assert own.fileno() == -1
    for each in (other, kept):
        each.close()


def test_supervisors_end_with_the_fork_server_those_at_work_after_their_process(harness):
    launcher = harness.make()
    parents = list_supervisors(harness, launcher, 2)
    waiting = harness.start(launcher, "wait", launch_id="8-1")
    busy = find_parent(waiting)
    launcher.close(kill=False)
    wait_until_none_runs({*parents} - {busy})
    assert process_identity.is_alive(waiting)
    launcher.kill("8-1")
    assert harness.wait_for_exit(launcher).signal == signal.SIGTERM
    wait_until_none_runs({busy})


def test_modules_that_start_threads_are_not_forked(harness, tmp_path, caplog, monkeypatch):
    (tmp_path / "starts_thread.py").write_text(_STARTS_THREAD)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ['PYTHONPATH']}")
    launcher = harness.make(preloaded=("starts_thread",))
    harness.start(launcher, "modules")
    assert harness.wait_for_exit(launcher).exit_code == 0
    assert "which the import of starts_thread started. Each trial gets a fresh" in caplog.text
    assert "fresh interpreter" in launcher.find_slowness()
    assert "preloaded False __main__" in " ".join(row.text for row in read_all(launcher))


def test_only_the_import_that_starts_a_thread_is_left_to_the_trials(
    harness, tmp_path, caplog, monkeypatch
):
    (tmp_path / "starts_thread.py").write_text(_STARTS_THREAD)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ['PYTHONPATH']}")
    launcher = harness.make(preloaded=("colorsys", "starts_thread"))
    harness.start(launcher, "modules")
    assert harness.wait_for_exit(launcher).exit_code == 0
    assert "Each trial begins without starts_thread." in caplog.text
    assert "preloaded True" in " ".join(row.text for row in read_all(launcher))


@pytest.mark.long(
    "Further cases of a test of which some run every time",
    but=["import os; os._exit(3)-it ended during the import of unusable"],
)
@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("import os; os._exit(3)", "it ended during the import of unusable"),
        ("import sys; sys.exit('no licence')", "it ended during the import of unusable"),
        ("import time; time.sleep(60)", "The import of unusable did not end within 5 s"),
    ],
)
def test_an_import_that_ends_or_holds_up_the_server_is_left_to_the_trials(
    harness, tmp_path, caplog, monkeypatch, code, fault
):
    (tmp_path / "unusable.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ['PYTHONPATH']}")
    if "sleep" in code:
        monkeypatch.setattr(starters, "_IMPORT_SECS", 5.0)
    launcher = harness.make(preloaded=("colorsys", "unusable"))
    harness.start(launcher, "modules")
    assert harness.wait_for_exit(launcher).exit_code == 0
    assert fault in caplog.text
    assert "Each trial begins without unusable." in caplog.text
    assert "preloaded True" in " ".join(row.text for row in read_all(launcher))


def test_functions_are_called_ahead_and_one_that_fails_is_told(
    harness, tmp_path, caplog, monkeypatch
):
    (tmp_path / "ahead.py").write_text(
        "def well():\n    import colorsys\ndef badly():\n    raise ValueError('not today')"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ['PYTHONPATH']}")
    launcher = harness.make(preloaded=("ahead:well", "ahead:badly"))
    harness.start(launcher, "modules")
    assert harness.wait_for_exit(launcher).exit_code == 0
    assert "could not import ahead:badly" in caplog.text
    assert "ValueError: not today" in caplog.text
    assert "preloaded True" in " ".join(row.text for row in read_all(launcher))


def test_pandas_pyarrow_and_scipy_do_not_keep_processes_from_being_forked(
    harness, caplog, monkeypatch
):
    for name in ("JE_ARROW_MALLOC_CONF", "OPENBLAS_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    launcher = harness.make(preloaded=("colorsys", "pandas", "pyarrow", "scipy.linalg"))
    harness.start(launcher, "modules")
    assert harness.wait_for_exit(launcher).exit_code == 0
    assert caplog.text == ""
    assert "preloaded True" in " ".join(row.text for row in read_all(launcher))


def test_threads_that_a_library_ends_for_a_fork_do_no_harm(harness, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    monkeypatch.setenv("JE_ARROW_MALLOC_CONF", "background_thread:true")
    launcher = harness.make(preloaded=("colorsys", "numpy", "pyarrow"))
    harness.start(launcher, "modules")
    assert harness.wait_for_exit(launcher).exit_code == 0
    assert launcher.find_slowness() == ""


@pytest.mark.long("What follows the start is the same for both ways to start", but=["fork"])
def test_no_process_sees_the_variables_that_keep_the_imports_quiet(harness, launcher, monkeypatch):
    for name in ("JE_ARROW_MALLOC_CONF", "NUMEXPR_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    harness.start(launcher, "environment")
    assert harness.wait_for_exit(launcher).exit_code == 0
    text = " ".join(row.text for row in read_all(launcher))
    assert "QUINTAIN_TINY" in text
    assert "JE_ARROW_MALLOC_CONF" not in text
    assert "NUMEXPR_NUM_THREADS" not in text
    assert "OPENBLAS_NUM_THREADS" not in text


@pytest.mark.long(
    "Further cases of a test of which some run every time", but=["None", "glibc.malloc.hugetlb=1"]
)
@pytest.mark.parametrize(
    "own",
    [None, "", "glibc.malloc.check=0", "glibc.malloc.hugetlb=1", "glibc.malloc.hugetlb=0:"],
)
def test_no_process_sees_that_it_is_copied_from_one_with_huge_pages(harness, own, monkeypatch):
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    if own is not None:
        monkeypatch.setenv("GLIBC_TUNABLES", own)
    launcher = harness.make()
    harness.start(launcher, "environment")
    assert harness.wait_for_exit(launcher).exit_code == 0
    rows = [row.text for row in read_all(launcher) if row.text.startswith("GLIBC_TUNABLES")]
    assert rows == ([f"GLIBC_TUNABLES={own}"] if own else [])


def test_a_module_that_can_not_be_imported_is_told_and_left_out(harness, caplog):
    launcher = harness.make(preloaded=("no_such_module",))
    harness.start(launcher, "")
    assert harness.wait_for_exit(launcher).exit_code == 0
    assert "could not import no_such_module" in caplog.text


@pytest.mark.long("What follows the start is the same for both ways to start", but=["fork"])
def test_a_process_is_adopted_by_the_launcher_of_another_master(harness, launcher):
    identity = harness.start(launcher, "wait")
    first = harness.wait_for_line(launcher, "ready")
    assert launcher.read_logs() == []
    launcher.close(kill=False)
    assert process_identity.is_alive(identity)
    other = harness.make()
    assert other.adopt("7-1", 7, identity, str(harness.scratch_dir))
    assert [row.text for row in first] == ["what wait", "ready"]
    assert other.read_logs() == []
    assert other.poll() == []
    other.kill("7-1")
    assert harness.wait_for_exit(other).signal == signal.SIGTERM


@pytest.mark.long("What follows the start is the same for both ways to start", but=["fork"])
def test_the_exit_and_the_lines_while_there_was_no_master_are_not_lost(harness, launcher):
    identity = harness.start(launcher, "write")
    launcher.close(kill=False)
    wait_until_gone(identity)
    other = harness.make()
    assert other.adopt("7-1", 7, identity, str(harness.scratch_dir))
    assert harness.wait_for_exit(other).exit_code == 3
    assert "no end of line" in [row.text for row in read_all(other)]


def test_lines_that_nobody_has_kept_are_read_again_by_the_next_launcher(harness):
    launcher = harness.make()
    identity = harness.start(launcher, "wait")
    first = harness.wait_for_line(launcher, "ready")
    launcher.close(kill=False)
    other = harness.make()
    assert other.adopt("7-1", 7, identity, str(harness.scratch_dir))
    assert other.read_logs() == first
    other.kill("7-1")
    harness.wait_for_exit(other)


def test_a_process_that_vanished_is_reported_after_its_lines_are_read(harness, monkeypatch):
    monkeypatch.setattr(process_launcher, "_VANISHED_SECS", 0.3)
    launcher = harness.make()
    identity = harness.start(launcher, "wait")
    harness.wait_for_line(launcher, "ready")
    os.kill(find_parent(identity), signal.SIGKILL)
    wait_until_gone(identity)
    other = harness.make()
    assert other.adopt("7-1", 7, identity, str(harness.scratch_dir))
    assert [row.text for row in read_all(other)] == ["what wait", "ready"]
    found = harness.wait_for_exit(other)
    assert (found.exit_code, found.signal) == (None, None)


def test_a_process_that_vanished_while_it_was_watched_is_reported(harness, monkeypatch):
    monkeypatch.setattr(process_launcher, "_VANISHED_SECS", 0.3)
    launcher = harness.make()
    identity = harness.start(launcher, "wait")
    harness.wait_for_line(launcher, "ready")
    os.kill(find_parent(identity), signal.SIGKILL)
    found = harness.wait_for_exit(launcher)
    assert (found.exit_code, found.signal) == (None, None)
    assert found.last_lines == ("what wait", "ready")


def test_a_clock_that_is_set_makes_no_process_vanish(harness, monkeypatch):
    monkeypatch.setattr(process_launcher, "_VANISHED_SECS", 0.05)
    launcher = harness.make()
    identity = harness.start(launcher, "wait")
    harness.wait_for_line(launcher, "ready")
    monkeypatch.setattr(process_identity, "_read_boot_time", lambda: 3600.0)
    monkeypatch.setattr(time, "time", lambda: 7200.0)
    launcher.poll()
    time.sleep(0.1)
    assert launcher.poll() == []
    other = harness.make()
    assert other.adopt("7-1", 7, identity, str(harness.scratch_dir))
    time.sleep(0.1)
    assert other.poll() == []
    other.kill("7-1")
    assert harness.wait_for_exit(other).signal == signal.SIGTERM


def test_another_process_with_the_same_number_is_left_alone(harness):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        own = process_identity.find(process.pid, "7-1")
        former = dataclasses.replace(own, mark=f"{own.mark}0")
        launcher = harness.make()
        assert not launcher.adopt("7-1", 7, former, str(harness.scratch_dir))
        launcher.kill("7-1")
        launcher.close(kill=True)
        assert process_identity.is_alive(own)
        process.communicate(b"\n")
        assert process.returncode == 0


def test_processes_outlive_a_master_that_is_killed(harness, tmp_path):
    script = f"""
import dataclasses, json, time
from quintain.master.processes import launcher, process_launcher
it = process_launcher.ProcessLauncher(worker="tiny_worker", preloaded=())
what = {{"QUINTAIN_TINY": "wait"}}
identity = it.start(launcher.LaunchRequest("7-1", 7, 1, (), what, {str(tmp_path)!r}))
print(json.dumps(dataclasses.asdict(identity)), flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as master:
        identity = process_launcher.trial.ProcessIdentity(**json.loads(master.stdout.readline()))
        master.kill()
    launcher = harness.make()
    time.sleep(0.2)
    assert launcher.adopt("7-1", 7, identity, str(tmp_path))
    harness.wait_for_line(launcher, "ready")
    launcher.kill("7-1")
    assert harness.wait_for_exit(launcher).signal == signal.SIGTERM


@pytest.mark.long("What follows the start is the same for both ways to start", but=["fork"])
def test_closing_with_kill_ends_all_processes(harness, launcher):
    identities = [harness.start(launcher, "wait", launch_id=f"7-{number}") for number in range(2)]
    launcher.close(kill=True)
    assert not any(process_identity.is_alive(identity) for identity in identities)
    assert len(launcher.poll()) == 2


@pytest.mark.parametrize("launch_id", ["", "../x", "a/b", "a b", ".hidden"])
def test_names_that_can_not_be_files_are_refused(harness, launch_id):
    with pytest.raises(ValueError, match="launch_id"):
        harness.start(harness.make(), "", launch_id=launch_id)


def test_a_scratch_directory_that_can_not_be_made_is_told(harness, tmp_path):
    (tmp_path / "file").write_text("")
    harness.scratch_dir = tmp_path / "file" / "scratch"
    with pytest.raises(errors.ClusterError, match="trial 7 could not be started"):
        harness.start(harness.make(), "")


def test_an_unknown_launch_can_be_killed(harness):
    harness.make().kill("nobody")


def test_a_fork_server_that_can_not_start_is_an_error(monkeypatch, harness):
    monkeypatch.setattr(starters.sys, "executable", "/bin/false")
    with pytest.raises(errors.ClusterError, match="fork server is gone"):
        harness.start(harness.make(), "")


@pytest.mark.long("What follows the start is the same for both ways to start", but=["fork"])
def test_the_system_shows_nobody_the_token_of_a_process(harness, launcher):
    identity = harness.start(launcher, "wait", variables={"QUINTAIN_TOKEN": "7/7-1/secret"})
    harness.wait_for_line(launcher, "ready")
    status = pathlib.Path(f"/proc/{identity.pid}/status").read_text()
    parent = re.search(r"^PPid:\s*([0-9]+)", status, re.MULTILINE)[1]
    for pid in (identity.pid, parent, os.getpid()):
        for name in ("environ", "cmdline"):
            assert b"7/7-1/secret" not in pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
