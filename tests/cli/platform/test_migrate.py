import pathlib
import shutil
import subprocess

import pytest

from quintain.files import atomic_write

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples" / "migration"
SOURCE = (
    "\ufeff# a comment, ü\r\n"
    "from official.core import base_task  , task_factory # kept\r\n"
    "import official.nlp.tasks.masked_lm, os\r\n"
    "import tensorflow_models as tfm; import orbit\r\n"
    "import tensorflow as tf, tf_keras\r\nfrom tf_keras.layers import Dense\r\n"
    "def f():\r\n"
    "\tfrom \\\r\n      pedl.frameworks.keras import (KerasTrial,)\r\n"
    "\treturn 'official.core is named here', orbit.Controller, tfm.nlp"
)
MOVED = (
    SOURCE.replace("from official.core", "from quintain.core")
    .replace(
        "import official.nlp.tasks.masked_lm",
        "import quintain.nlp.tasks.masked_lm, quintain as official",
    )
    .replace("import tensorflow_models as", "import quintain as")
    .replace("import orbit", "import quintain.orbit as orbit")
    .replace("tf, tf_keras", "tf, tensorflow.keras as tf_keras")
    .replace("from tf_keras.", "from tensorflow.keras.")
    .replace("pedl.frameworks.keras", "quintain.trials.keras")
)


@pytest.fixture
def write(tmp_path):
    def write_file(name, text):
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return write_file


@pytest.mark.slow
@pytest.mark.parametrize("family", ["garden", "pedl"])
def test_the_examples_are_moved_by_their_imports(quintain, tmp_path, family):
    target = tmp_path / "project"
    before, after = (EXAMPLES / family / name for name in ("before", "after"))
    shutil.copytree(before, target, ignore=shutil.ignore_patterns("__pycache__"))

    code, _, stderr = quintain("migrate", target)

    assert code == 0, stderr
    assert all(line.endswith("has no effect here.") for line in stderr.splitlines())
    for path in after.rglob("*.*"):
        if "__pycache__" not in path.parts:
            assert (target / path.relative_to(after)).read_bytes() == path.read_bytes()


def test_all_else_stays_to_the_byte_and_what_git_has_not_is_kept(quintain, write):
    path = write("train.py", SOURCE)

    code, stdout, _ = quintain("migrate", path)

    assert path.read_bytes().decode() == MOVED
    assert path.with_name("train.py.orig").read_bytes().decode() == SOURCE
    assert "train.py.orig" in stdout
    assert quintain("migrate", path)[:2] == (code, "Nothing to rewrite.\n")


def test_a_dry_run_shows_the_difference_and_writes_nothing(quintain, write):
    path = write("a.py", "import pedl\nx = 1\n")

    code, stdout, _ = quintain("migrate", path, "--dry-run")

    assert (code, path.read_text()) == (0, "import pedl\nx = 1\n")
    assert "-import pedl\n+import quintain.trials as pedl\n" in stdout
    assert not list(path.parent.glob("*.orig"))


def test_what_could_not_be_moved_is_named_with_its_line(quintain, write):
    write("a.py", "import determined as det\nfrom determined.pytorch import PyTorchTrial\n")
    write("b.py", "from pedl.frameworks.keras import KersTrial\nm = 'official.core.actions'\n")
    write("c.py", "print 'python 2', pedl\n")
    write("d.yaml", "entrypoint: m:T\nsearcher: {name: single, metric: a, max_lenght: 3}\n")
    directory = write("run.sh", "python -m official.nlp.train --x=1\n").parent

    code, _, stderr = quintain("migrate", directory, "--dry-run")

    assert code == 1
    lines = {line.removeprefix(f"{directory}/") for line in stderr.splitlines()}
    starts = (
        "a.py:2: `quintain.trials.pytorch` is not offered.",
        "b.py:1: Quintain's quintain.trials.keras has no 'KersTrial'. Did you mean 'KerasTrial'?",
        "b.py:2: the text 'official.core.actions' was not rewritten.",
        "c.py:1: this is no Python 3, and was left alone",
        "d.yaml:2: searcher.max_lenght: unknown",
        "run.sh:1: 'official.nlp.train' was not rewritten.",
    )
    for start in starts:
        assert any(line.startswith(start) for line in lines), (start, lines)


def test_names_that_every_module_has_are_not_missing(quintain, write):
    path = write("a.py", "from official.core import base_task as b\nb.__name__, b.__file__\n")

    assert quintain("migrate", path)[::2] == (0, "")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x.shape.as_list()[0]", "list(x.shape)[0]"),
        ("(x + 1).shape .as_list( )", "list((x + 1).shape)"),
        ("f(input_shape.as_list(), 'ü', x.get_shape().as_list())", None),
        ("(x\n .shape\n .as_list())", "(list(x\n .shape))"),
        ("f(x.shape.as_list()).get_shape().as_list()", "list(f(list(x.shape)).shape)"),
        ("x.rows.as_list(), x.shape.as_list(1), x.shape.as_list, 'x.shape.as_list()'", "same"),
    ],
)
def test_shapes_become_lists_as_those_of_keras_3_can(quintain, write, before, after):
    path = write("a.py", f"y = {before}\n")
    after = {"same": before, None: "f(list(input_shape), 'ü', list(x.shape))"}.get(after, after)

    assert quintain("migrate", path)[::2] == (0, "")
    assert path.read_text() == f"y = {after}\n"


def test_names_that_keras_3_lacks_are_named(quintain, write):
    path = write(
        "a.py",
        "import tensorflow as tf, tf_keras\n"
        "from tf_keras.layers import Dense, experimental\n"
        "tf.keras.optimizers.experimental.Adam(), tf_keras.optimizers.experimental\n"
        "tf_keras.layers.Dense.call, tf.keras.__version__, tf.keras.layers.Dens\n",
    )

    code, _, stderr = quintain("migrate", path, "--dry-run")

    assert code == 1
    assert [line.removeprefix(f"{path}:") for line in stderr.splitlines()] == [
        "2: Keras 3 has no tf.keras.layers.experimental.",
        "3: Keras 3 has no tf.keras.optimizers.experimental.",
        "4: Keras 3 has no tf.keras.layers.Dens. Did you mean 'Dense'?",
    ]


def test_trials_have_the_names_of_keras_2(quintain, write):
    path = write("a.py", "import pedl, tensorflow as tf\ntf.keras.utils.np_utils.to_categorical\n")

    assert quintain("migrate", path)[::2] == (0, "")


def test_modules_in_configs_are_moved(quintain, write):
    yaml = write(
        "a.yaml", "# official.x\nm: official.core.actions:Run  # kept\nu: https://determined.ai\n"
    )
    gin = write("b.gin", "import official.nlp.tasks\nTrainer.x = 1\n")

    quintain("migrate", yaml.parent)

    assert yaml.read_text() == (
        "# official.x\nm: quintain.core.actions:Run  # kept\nu: https://determined.ai\n"
    )
    assert gin.read_text() == "import quintain.nlp.tasks\nTrainer.x = 1\n"


@pytest.mark.slow
def test_what_git_has_is_not_copied(quintain, write):
    path = write("a.py", "import pedl\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(path.parent)]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "a"]):
        subprocess.run([*git, *command], check=True)

    assert quintain("migrate", path)[0] == 0
    assert not list(path.parent.glob("*.orig"))


def test_nothing_is_half_written(quintain, write, monkeypatch):
    first, second = write("a.py", "import pedl\n"), write("b.py", "import pedl\n")
    replace = atomic_write.write_atomically

    def fail(path, content, **options):
        if path == second:
            raise OSError(28, "No space left on device")
        replace(path, content, **options)

    monkeypatch.setattr(atomic_write, "write_atomically", fail)

    assert quintain("migrate", first.parent)[0] == 2
    assert first.read_text() == second.read_text() == "import pedl\n"
    assert not list(first.parent.glob("*.orig"))
