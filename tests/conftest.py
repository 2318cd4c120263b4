"""Settings of all tests."""

import collections
import fcntl
import gc
import hashlib
import importlib
import json
import logging
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import types

import pytest

from quintain.process import start_up

_PROGRAMS = pathlib.Path(__file__).parent / "programs"
_MANY_FILES = 20  # Where it is worth saying which of them took longest.


def pytest_addoption(parser):
    """Adds what only somebody in doubt wants to wait for."""
    parser.addoption(
        "--long",
        action="store_true",
        help="run tests that are marked `long`, too, and kill and damage runs as often as a"
        " release asks for",
    )


class _Summary:
    """Long tests of a run, and the time that each file took, on one process or several."""

    def __init__(self):
        self._long = collections.defaultdict(list)
        self._is_found = collections.Counter()
        self._num_left_out = 0
        self._file_secs = collections.Counter()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config, items):
        """Leaves out long tests, unless the command line names them."""
        self._find_long(items)
        is_named = any("::" in name for name in config.args)
        missing = [key for key, is_found in self._is_found.items() if not is_found]
        if missing and not is_named:
            raise pytest.UsageError(f"No test has the parameter that `long` excepts: {missing}")
        if config.option.long or is_named or re.search(r"\blong\b", config.option.markexpr):
            return
        left_out = [item for item in items if item.get_closest_marker("long")]
        items[:] = [item for item in items if not item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=left_out)
        self._num_left_out = len(left_out)
        if hasattr(config, "workeroutput"):
            config.workeroutput["num_left_out"] = len(left_out)

    def _find_long(self, items):
        """Notes long tests; those with a parameter that their mark names are long no more."""
        for item in items:
            mark = item.get_closest_marker("long")
            if mark is None:
                if "is_long" in item.fixturenames:
                    self._long["As often as a release asks for, and less in each run"].append(item)
                continue
            name = item.callspec.id if hasattr(item, "callspec") else ""
            parts = {name, *name.split("-")}
            for kept in mark.kwargs.get("but", ()):
                self._is_found[item.path, item.originalname, kept] |= kept in parts
            if parts.isdisjoint(mark.kwargs.get("but", ())):
                self._long[mark.args[0]].append(item)
            else:
                item.own_markers.remove(mark)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        """Takes the number of a process that runs tests for this one."""
        self._num_left_out = getattr(node, "workeroutput", {}).get("num_left_out", 0)

    def pytest_runtest_logreport(self, report):
        """Adds what a test, its setup or teardown took."""
        self._file_secs[report.nodeid.partition("::")[0]] += report.duration

    def pytest_terminal_summary(self, terminalreporter, config):
        """Says where the time went, and what of the tests is long and why."""
        if len(self._file_secs) >= _MANY_FILES:
            terminalreporter.section("slowest files")
            for path, secs in self._file_secs.most_common(5):
                terminalreporter.line(f"{secs:7.1f}s {path}")
        if config.option.long and config.option.collectonly:
            terminalreporter.section("long tests")
            for reason, items in sorted(self._long.items()):
                terminalreporter.line(f"{reason}:")
                for name in dict.fromkeys(item.nodeid.partition("[")[0] for item in items):
                    count = sum(item.nodeid.partition("[")[0] == name for item in items)
                    terminalreporter.line(f"  {name}{f' ({count} tests)' if count > 1 else ''}")
        if self._num_left_out:
            terminalreporter.line(
                f"{self._num_left_out} long tests left out: `scripts/test_all` lists and runs them."
            )


def pytest_configure(config):
    """Gives tests a home directory, and the signals that `&` in a script and `nohup` take away."""
    config.pluginmanager.register(_Summary())
    # Python's own limits would have it look through TensorFlow, this package and thousands of tests
    # again and again, which takes a third of the time to collect these.
    gc.set_threshold(20_000, 20, 10)
    start_up.prepare()
    home = tempfile.TemporaryDirectory(prefix="quintain-home-")
    config.add_cleanup(home.cleanup)
    # Trainings note their directories there.
    os.environ["QUINTAIN_HOME"] = home.name
    # Native kernels are compiled once, also for tests that have a home directory of their own.
    os.environ.setdefault("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        # A handler, unlike what is ignored, does not outlive the start of another program.
        signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_collection_finish():
    """Takes what stays until the end of the run out of what is looked through for garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def run_program(tmp_path_factory, request):
    """Runs a program of `tests/programs/`, and returns the JSON that it writes last.

    The same program with the same arguments runs once, for all processes that share the tests. With
    `is_fresh` it is for what importing or leaving Python does.
    """
    directory = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        directory = directory.parent

    def run(name, *arguments, is_fresh=False):
        command = [str(_PROGRAMS / name), *map(str, arguments)]
        path = directory / f"{hashlib.sha256(json.dumps(command).encode()).hexdigest()}.json"
        with open(path.with_suffix(".lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                start = _start_python if is_fresh else request.getfixturevalue("run_python")
                done = start(*command)
                assert done.returncode == 0, done.stderr[-3000:]
                path.write_text(done.stdout.splitlines()[-1], encoding="utf-8")
        return json.loads(path.read_text(encoding="utf-8"))

    return run


def _start_python(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def run_python(tmp_path_factory):
    """Runs Python as `subprocess.run` does, but in a copy of a process that has TensorFlow.

    It takes what follows `python` on a command line. For programs of which the start is no part of
    what is tested.
    """
    directory = tmp_path_factory.mktemp("output")
    with subprocess.Popen(
        [sys.executable, str(_PROGRAMS / "warm_python.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    ) as server:

        def run(*arguments, cwd="."):
            files = {name: directory / name for name in ("stdout", "stderr")}
            for file in files.values():
                file.write_bytes(b"")
            program = {"arguments": list(map(str, arguments)), "cwd": os.path.abspath(cwd)}
            server.stdin.write(json.dumps({**program, **files}, default=str) + "\n")
            server.stdin.flush()
            code = int(server.stdout.readline())
            output = {name: file.read_text(encoding="utf-8") for name, file in files.items()}
            return subprocess.CompletedProcess(arguments, code, **output)

        yield run


@pytest.fixture
def block_packages(monkeypatch):
    """Lets imports of packages fail, as where they are not installed."""

    def block(*names):
        for name in names:
            for loaded in [each for each in sys.modules if each.startswith(f"{name}.")]:
                monkeypatch.delitem(sys.modules, loaded)
            monkeypatch.setitem(sys.modules, name, None)
            # fsspec keeps the classes that it has imported.
            registry = importlib.import_module("fsspec.registry")
            for scheme, kind in list(registry._registry.items()):
                if kind.__module__.partition(".")[0] == name:
                    monkeypatch.delitem(registry._registry, scheme)

    return block


@pytest.fixture(scope="session")
def postgres_server():
    """A PostgreSQL server that is this process' own."""
    module = importlib.import_module("quintain.testing.postgres_server")
    programs = module.find_programs()
    if programs is None:
        pytest.skip("needs the programs of a PostgreSQL server (Debian's package `postgresql`)")
    with module.PostgresServer(programs) as server:
        yield server


@pytest.fixture(scope="session")
def _postgres_database(postgres_server):
    """Name of a database with the tables of a store."""
    store_lib = importlib.import_module("quintain.store.store")
    name = postgres_server.create_database()
    store_lib.open_store(postgres_server.build_url(name)).close()
    return name


@pytest.fixture
def postgres_url(postgres_server, _postgres_database):
    """Address of a database of a store with nothing in it."""
    schema = importlib.import_module("quintain.store.schema")
    name = _postgres_database
    others = f"FROM pg_stat_activity WHERE datname = '{name}' AND pid != pg_backend_pid()"
    postgres_server.run(f"SELECT pg_terminate_backend(pid) {others}")
    # Much quicker than a new database.
    tables = reversed(schema.list_tables())
    deletions = "; ".join(f"DELETE FROM {table}" for table in tables)
    # Nor does the audit log keep its rows then.
    postgres_server.run(f"SET session_replication_role = replica; {deletions}", name)
    return postgres_server.build_url(name)


@pytest.fixture
def is_long(request):
    """Whether tests that kill runs at random do it as often as a release asks for."""
    return request.config.getoption("--long")


def pytest_collection_modifyitems(items):
    """Puts files with long tests first: at the end, one of them would keep other cores waiting."""
    marks = {}
    for item in items:
        found = {mark.name for mark in item.iter_markers()}
        marks.setdefault(item.path, set()).update(found)
    items.sort(key=lambda item: ("e2e" not in marks[item.path], "slow" not in marks[item.path]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Lets only tests that are marked `slow` start Python, which takes seconds with TensorFlow."""
    start = subprocess.Popen.__init__

    def refuse(process, args, *others, **options):
        program = args if isinstance(args, str | os.PathLike) else args[0]
        if pathlib.Path(program).name.startswith("python"):
            pytest.fail(f"{item.nodeid} starts Python: mark it with `pytest.mark.slow`.")
        start(process, args, *others, **options)

    with pytest.MonkeyPatch.context() as patch:
        if item.get_closest_marker("slow") is None:
            patch.setattr(subprocess.Popen, "__init__", refuse)
        return (yield)


_LOGGERS = [logging.getLogger(name) for name in ("quintain", "absl", "tensorflow", "py.warnings")]
_SETTINGS = [(logger.handlers[:], logger.propagate, logger.level) for logger in _LOGGERS]


@pytest.fixture(autouse=True)
def _logging_is_put_back():
    """Undoes what the command line does to the loggers of the process, in fixtures, too."""
    yield
    logging.captureWarnings(capture=False)
    for logger, (handlers, propagate, level) in zip(_LOGGERS, _SETTINGS, strict=True):
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


_LAYERS = {"num_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory):
    """A translation run as training leaves it, with two checkpoints of different weights."""
    corpus = tmp_path_factory.mktemp("corpus") / "train.tsv"
    corpus.write_text("red house\trotes Haus\ngreen tree\tgrüner Baum\n" * 20, encoding="utf-8")
    task = {
        "model": {
            "encoder": _LAYERS,
            "decoder": _LAYERS,
            "embedding_width": 16,
            "beam_size": 2,
            "decode_max_length": 8,
        },
        "train_data": {"input_path": str(corpus)},
        "vocab_size": 40,
    }
    directory = str(tmp_path_factory.mktemp("run"))
    _write_run("translation/local", task, directory, num_checkpoints=2)
    corpus.unlink()
    return directory


@pytest.fixture(scope="session")
def make_classifier_run(tmp_path_factory):
    """Makes runs of sentence prediction as training leaves them, with changes of their task."""
    vocabulary = importlib.import_module("quintain.nlp.data.masked.bert_vocabulary")
    tokenizers = importlib.import_module("quintain.nlp.data.tokenizers")
    vocab_file = str(tmp_path_factory.mktemp("vocabulary") / "v.model")
    texts = ["ein Haus am See", "a house by the lake", "une maison au bord du lac"]
    tokenizers.train_sentencepiece(
        texts * 10, vocab_file, vocab_size=60, control_symbols=vocabulary.SPECIAL_TOKENS
    )
    sizes = {"vocab_size": 60, "hidden_size": 8, "max_position_embeddings": 16, **_LAYERS}

    def make(*, text_fields=("text",), **task):
        """Returns the directory; without `text_fields` it was trained on ids."""
        experiment = "bert/sentence_prediction_text" if text_fields else "bert/sentence_prediction"
        data = {"input_path": "not there any more", "seq_length": 16}
        if text_fields:
            data |= {
                "text_fields": list(text_fields),
                "tokenization": "SentencePiece",
                "vocab_file": vocab_file,
            }
        model = {"encoder": {"type": "bert", "bert": sizes}}
        directory = str(tmp_path_factory.mktemp("run"))
        fields = {"train_data": data, "validation_data": data, **task}
        fields["model"] = {**model, **task.get("model", {})}
        # Weights as small as new ones predict the same for all texts.
        _write_run(experiment, fields, directory, is_noisy=True)
        return directory

    return make


@pytest.fixture(scope="session")
def classifier_dir(make_classifier_run):
    """A run that tells three languages apart, with random weights."""
    return make_classifier_run(label_names=["de", "en", "fr"])


def _write_run(experiment, task_fields, directory, *, num_checkpoints=1, is_noisy=False):
    """Writes what a run of an experiment leaves. Only tests that need it wait for TensorFlow."""
    keras = importlib.import_module("keras")
    tf = importlib.import_module("tensorflow")
    importlib.import_module("quintain.registered_experiments")
    exp_factory = importlib.import_module("quintain.core.exp_factory")
    run_files = importlib.import_module("quintain.run.run_files")
    task_factory = importlib.import_module("quintain.core.task_factory")
    params = exp_factory.get_exp_config(experiment)
    params.override({"task": task_fields})
    run_files.serialize_config(params, directory, experiment=experiment)
    task = task_factory.get_task(params.task, logging_dir=directory)
    for step in range(1, num_checkpoints + 1):
        keras.utils.set_random_seed(step)
        model = task.build_model()
        for weight in model.trainable_weights if is_noisy else ():
            weight.assign_add(keras.random.normal(weight.shape, stddev=0.3))
        tf.train.Checkpoint(model=model).write(f"{directory}/ckpt-{step}")


@pytest.fixture
def replace_sleep(monkeypatch):
    """Has a module sleep in another way; the threads of others go on sleeping as they do."""

    def replace(module, sleep):
        calls = {**vars(time), "sleep": sleep}
        monkeypatch.setattr(module, "time", types.SimpleNamespace(**calls))

    return replace
