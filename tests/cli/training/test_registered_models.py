import pathlib
import shutil

import pytest

from quintain import errors
from quintain.cli.training import registered_models


@pytest.fixture
def serve(quintain, monkeypatch):
    """Asks `serve-model` for a model; returns its exit code, its error and what it would load."""
    found = []

    def load(model_dir, **given):
        path = pathlib.Path(model_dir)
        content = [path.read_text()] if path.is_file() else [each.name for each in path.iterdir()]
        found.append((path.name, sorted(content), given["checkpoint"]))
        raise KeyboardInterrupt

    monkeypatch.setattr("quintain.serving.served_model.load", load)

    def ask(*arguments):
        code, _, stderr = quintain("serve-model", "--port=0", *arguments)
        return code, stderr, found[-1] if found else None

    return ask


@pytest.mark.slow
def test_a_checkpoint_is_served_from_a_copy_that_is_checked(quintain, trial_ids, serve):
    quintain("model", "register", "digits", "--experiment=1", "--alias=champion")
    _, stderr, loaded = serve("--model=digits@champion")
    assert loaded == ("model.keras", ["0002"], None)
    assert "Model digits@1, SHA-256 " in stderr
    assert "unchanged since it was registered" in stderr


@pytest.mark.slow
def test_an_export_is_served_where_it_is(quintain, registry, export, serve):
    quintain("model", "register", "digits", export)
    assert serve("--model=digits@1")[2] == ("mine", ["saved_model.pb", "variables"], None)


def test_a_run_is_served_by_the_checkpoint_that_was_registered(quintain, registry, write_run):
    run = write_run(2)
    quintain("model", "register", "digits", run)
    write_run(4)
    seen = []
    served = registered_models.reads(lambda **flags: seen.append(flags))
    served(reference="digits@1", model_dir=None, checkpoint=None)
    assert seen[0]["model_dir"] == str(run)
    assert seen[0]["checkpoint"] == str(run / "ckpt-2")

    def fail(model_dir, checkpoint):
        raise errors.ConfigError(f"model_dir: got {model_dir!r}.")

    with pytest.raises(errors.ConfigError, match="model_dir: got 'digits@1'"):
        registered_models.reads(fail)(reference="digits@1", model_dir=None, checkpoint=None)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: (path / "saved_model.pb").write_text("other"), "saved_model.pb has changed"),
        (lambda path: (path / "saved_model.pb").unlink(), "saved_model.pb is gone"),
        (shutil.rmtree, "mine, which it points at, is gone. Put it back, or register it anew"),
    ],
)
@pytest.mark.slow
def test_what_has_changed_or_is_gone_is_not_served(
    quintain, registry, export, serve, spoil, message
):
    quintain("model", "register", "digits", export)
    spoil(export)
    code, stderr, loaded = serve("--model=digits@1")
    assert code in (1, 2)
    assert loaded is None
    assert f"digits@1: {export}" in stderr
    assert message in stderr


@pytest.mark.slow
def test_a_checkpoint_that_has_changed_is_not_served(quintain, trial_ids, registry, serve):
    quintain("model", "register", "digits", "--trial=1")
    path = pathlib.Path(registry.find_checkpoint_files("0001").local) / "model.keras"
    path.write_text("0003")
    _, stderr, loaded = serve("--model=digits@1")
    assert loaded is None
    assert "digits@1: checkpoint 0001 is not what was registered: model.keras has changed" in stderr
    shutil.rmtree(path.parent)
    assert "digits@1: what it points at is gone or damaged" in serve("--model=digits@1")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--model-dir, --model: expected one of them"),
        (["--model=a@1", "--model-dir=b"], "--model-dir, --model: expected one of them"),
        (["--model=a@1", "--checkpoint=b"], "--checkpoint: got together with --model"),
        (["--model=a"], "expected NAME@VERSION or NAME@ALIAS"),
        (["--model=a@1"], "There is no model 'a'; there are none"),
    ],
)
@pytest.mark.slow
def test_mistakes_are_named(registry, serve, arguments, message):
    code, stderr, loaded = serve(*arguments)
    assert (code in (1, 2), loaded) == (True, None)
    assert message in stderr
