"""Files of users are opened, listed and named through `file_io` and `file_paths` alone.

What else in Python does that knows nothing of `gs://`, and takes the `//` of a URL for one `/`.
"""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]

LOCAL_ON_PURPOSE = {
    "files/changing_files.py": "lists local directories that others change",
    "run/fitting/keras_task.py": "a passing directory of a Keras file",
    "hub/bundled.py": "a passing directory of a preset, which KerasHub writes and reads",
    "input/diagnosis/random_watch.py": "the files of this package and of its libraries",
    "checkpoints/checkpoints.py": "links between local files",
    "checkpoints/run_lock.py": "locks of the operating system, which only local files have",
    "core/user_modules.py": "source files of modules, which Python itself imports",
    "files/atomic_write.py": "forces local files to the disk",
    "files/disk_errors.py": "tries whether a local disk can be written to",
    "files/fetched_files.py": "local copies for TensorFlow of what it can't reach",
    "files/file_io.py": "what it is made of",
    "files/file_paths.py": "what it is made of",
    "files/file_systems.py": "what it is made of",
    "kernels/building.py": "programs and libraries, for the compiler",
    "kernels/cache.py": "libraries, which the system loads from local files only",
    "kernels/library.py": "libraries, which the system loads from local files only",
    "kernels/sealed_files.py": "libraries, which the system loads from local files only",
    "kernels/sources.py": "files of this package",
    "nlp/data/corpora/bundled_corpora.py": "files of this package",
    "nlp/data/masked/disk_shuffle.py": "passing files of a shuffle, in a local directory",
    "nlp/data/masked/mlm_records.py": "makes that directory",
    "nlp/data/text_operations.py": "a library of an installed package",
    "nlp/data/train_sentencepiece.py": "a passing file of sentences",
    "files/literal_paths.py": "symbolic links to local directories",
    "files/user_cache.py": "the user's own cache, which is local",
    "files/whole_files.py": "locks local directories",
    "cli/training/local_training.py": "logs of local processes",
    "run/proof/retraining.py": "the passing directory of steps that are trained again",
    "cli/training/train.py": "the passing directory of a dry run",
    "process/start_up.py": "the process's standard streams",
    "garden/utils/testing/integration.py": "the directory of a test",
    "process/user_errors.py": "source files of programs, to show a line of them",
}
"""Modules that open or name files themselves, with the reason."""

OTHER_HALF = (
    *("cli", "client", "cluster", "master", "records", "search", "server", "storage", "store"),
    "testing",
)
OTHER_HALF += ("certify", "trials", "web")
OTHER_FILES = ("process/process_end.py",)
TRAINING_COMMANDS = ("train", "export", "predict", "translate", "serve_model", "config", "data")
TRAINING_COMMANDS += ("instance_lines", "local_training")

MODULES = {"glob", "pathlib", "shutil", "tempfile"}
OF_OS = re.compile(
    r"os\.(access|chmod|chown|fsync|link|listdir|lstat|makedirs|mkdir|open|path|readlink|remove|"
    r"renames?|replace|rmdir|scandir|stat|symlink|truncate|unlink|utime|walk)"
)
OF_TENSORFLOW = {
    "tf.io.gfile",
    "tf.train.checkpoints_iterator",
    "tf.train.latest_checkpoint",
    "tf.train.list_variables",
    "tf.train.load_checkpoint",
    "tf.train.load_variable",
}


def list_files():
    root = ROOT / "quintain"
    found = {
        path for path in root.rglob("*.py") if path.relative_to(root).parts[0] not in OTHER_HALF
    }
    found -= {root / name for name in OTHER_FILES}
    return sorted(found | {root / "cli/training" / f"{name}.py" for name in TRAINING_COMMANDS})


def find_accesses(tree):
    """Yields line and name of every use of what knows only local files."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, one.name) for one in node.names if one.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in {*MODULES, "os", "os.path"}:
            yield node.lineno, node.module
        elif isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            if name in OF_TENSORFLOW or OF_OS.fullmatch(name):
                yield node.lineno, name
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"open", "io.open"}:
            yield node.lineno, "open"
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"gzip.open", "bz2.open"}:
            yield node.lineno, ast.unparse(node.func)


def test_only_named_modules_of_the_training_half_know_local_files_alone():
    accesses = {
        str(path.relative_to(ROOT / "quintain")): list(find_accesses(ast.parse(path.read_text())))
        for path in list_files()
    }

    assert {name: found for name, found in accesses.items() if found} == {
        name: accesses.get(name) for name in sorted(LOCAL_ON_PURPOSE)
    }


@pytest.mark.parametrize(
    "code",
    [
        "import pathlib",
        "from os import path",
        "open(name)",
        "os.path.join(a, b)",
        "os.listdir(a)",
        "tf.io.gfile.exists(a)",
        "gzip.open(a)",
        "tf.train.latest_checkpoint(a)",
    ],
)
def test_the_search_finds(code):
    assert list(find_accesses(ast.parse(code)))
