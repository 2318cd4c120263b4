import json
import signal
import subprocess
import sys
import time
import types

import pytest

from quintain import errors
from quintain.client.home import home as home_lib
from quintain.client.notebook import run_notes
from quintain.config import gin_io
from quintain.records.rows import training_run
from quintain.run import experiment_parser, run_mode
from quintain.server.runs import run_index, run_reader, run_samples

LOCAL = "--experiment=translation/local"


@pytest.fixture(scope="module")
def shared_run(tmp_path_factory):
    """A tiny run: its directory, and what the command said that trained it, once it has."""
    return types.SimpleNamespace(directory=tmp_path_factory.mktemp("run") / "tiny", said=None)


@pytest.fixture
def said(shared_run, quintain, tiny):
    """The exit code and the output of the command that trained `run_dir`."""
    if shared_run.said is None:
        shared_run.said = quintain("train", LOCAL, f"--model-dir={shared_run.directory}", tiny)
    return shared_run.said


@pytest.fixture
def run_dir(shared_run, said):
    """The directory of a tiny finished run."""
    assert said[0] == 0, said[2]
    return shared_run.directory


@pytest.mark.long("The road of tests/e2e reads what a run prints")
@pytest.mark.slow
def test_a_run_shows_progress_results_and_what_to_do_next(run_dir, said):
    code, stdout, stderr = said

    assert code == 0
    assert stdout == ""
    assert "tokens/s  ETA" in stderr
    assert "evaluated step 4: loss" in stderr
    assert "BLEU" in stderr
    assert f'quintain translate --model-dir={run_dir} "' in stderr
    assert f"quintain train --model-dir={run_dir}" in stderr
    assert f"quintain tensorboard --run={run_dir}" in stderr


@pytest.mark.slow
def test_a_run_is_found_by_the_page_with_how_it_was_started(run_dir):
    index = run_index.RunIndex((), lambda: run_notes.list_paths(home_lib.find_home()))
    found = next(run for run in index.list_runs() if run.path == run_dir.resolve())
    reader = run_reader.RunReader()

    details, curves = reader.describe(found), reader.read_curves(found, "")
    samples = run_samples.read(found.path, "", contains="", offset=0, limit=5)

    assert details.run.experiment == "translation/local"
    assert details.run.state is training_run.RunProgress.ENDED
    assert details.checkpoints[-1].name == f"ckpt-{details.run.step}"
    (start,) = details.environment["starts"][:1]
    assert start["versions"].keys() >= {"quintain", "tensorflow", "keras"}
    assert start["sources"]["task.vocab_size"] == "--params-override"
    assert curves.training.steps[:2] == [2, 4]
    assert "validation_loss" in curves.evaluations.metrics
    assert len(samples.rows) == 5


@pytest.mark.long("tests/run shows it without the command line")
@pytest.mark.slow
def test_a_finished_run_says_so_and_can_be_trained_longer(run_dir, quintain):
    code, _, stderr = quintain("train", f"--model-dir={run_dir}")
    longer, stdout, _ = quintain(
        "train", f"--model-dir={run_dir}", "--set", "trainer.train_steps=6", "--json"
    )

    assert code == 0
    assert "This run is finished" in stderr
    assert longer == 0
    assert json.loads(stdout)["step"] == 6


@pytest.mark.long("tests/run shows it without the command line")
@pytest.mark.slow
def test_evaluation_prints_metrics_as_json(run_dir, quintain):
    code, stdout, _ = quintain("train", "--mode=eval", f"--model-dir={run_dir}", "--json")

    assert code == 0
    assert {"validation_loss", "sacrebleu_score", "exact_match"} <= json.loads(stdout).keys()


@pytest.mark.long("tests/run shows it without the command line")
@pytest.mark.slow
def test_params_yaml_is_enough_to_run_again(run_dir, tmp_path, quintain):
    code, stdout, stderr = quintain(
        "train",
        f"--config-file={run_dir / 'params.yaml'}",
        f"--model-dir={tmp_path / 'again'}",
        "--json",
    )

    assert code == 0, stderr
    assert json.loads(stdout)["step"] in (4, 6)


@pytest.mark.long("The road of tests/e2e translates in every run")
@pytest.mark.slow
def test_translate_prints_one_line_for_each_text(run_dir, quintain):
    code, stdout, stderr = quintain(
        "translate", f"--model-dir={run_dir}", "one", "the third of May"
    )

    assert (code, stderr) == (0, "")
    assert len(stdout.splitlines()) == 2


@pytest.mark.slow
def test_a_dry_run_reports_and_keeps_nothing(tmp_path, quintain, tiny, monkeypatch):
    monkeypatch.chdir(tmp_path)

    code, _, stderr = quintain("train", LOCAL, "--dry-run", tiny)

    assert code == 0
    assert all(word in stderr for word in ("parameters", "peak memory", "first step", "4 steps"))
    assert list(tmp_path.iterdir()) == []


def write_pairs(path, pairs=(("one two", "eins zwei"), ("three", "drei")) * 40):
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    return path


SMALL = "--experiment=translation/small"


def data_flags(train, valid):
    return [
        f"--set=task.train_data.input_path={train}",
        f"--set=task.validation_data.input_path={valid}",
    ]


@pytest.mark.long("tests/e2e/test_roads.py trains on such files")
@pytest.mark.slow
def test_own_tsv_files_can_be_trained_on(tmp_path, quintain, tiny):
    train, valid = write_pairs(tmp_path / "t.tsv"), write_pairs(tmp_path / "v.tsv")

    code, stdout, stderr = quintain(
        "train", SMALL, tiny, *data_flags(train, valid), f"--model-dir={tmp_path / 'r'}", "--json"
    )

    assert code == 0, stderr
    assert json.loads(stdout)["step"] == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--experiment=translation/locl"], "Did you mean 'translation/local'"),
        ([LOCAL, "--mode=trian"], "--mode: got 'trian'"),
        ([LOCAL, "--mode=continuous_train_and_eval"], "task.init_checkpoint: missing"),
        ([LOCAL, "--pretrain-steps=3"], "expected --mode=continuous_train_and_eval"),
        ([LOCAL, "--set", "trainer.train_stepz=3"], "--set: trainer.train_stepz: unknown"),
        ([LOCAL, "--set", "trainer.train_steps=many"], "got 'many', expected an integer"),
        ([LOCAL, "--params-override=trainer"], "expected `path=value`"),
        ([LOCAL, "--config-file=missing.yaml"], "missing.yaml: can't be read"),
        ([LOCAL, "--tpu=local"], "runtime.tpu: got 'local' with distribution_strategy"),
        ([LOCAL, "--set", "runtime.worker_hosts=a:1"], "runtime.worker_hosts"),
        (
            [LOCAL, "--set", "task.model.decoder.activation=rellu"],
            "task.model.decoder.activation: got 'rellu', expected one of",
        ),
        (
            [LOCAL, "--set", "task.model.encoder.num_attention_heads=3"],
            "num_attention_heads: got 3",
        ),
        ([LOCAL, "--set", "trainer.optimizer_config.optimizer.type=adm"], "Did you mean 'adam'"),
        ([LOCAL, "--set", "task.train_data.input_path=bundled:numbers"], "numbers_and_dates"),
        ([LOCAL, "--set", "trainer.summary_interval=7"], "expected a multiple of steps_per_loop"),
        ([LOCAL, "--set", "task.sentencepiece_model_path=none.model"], "none.model"),
        ([LOCAL, "--gin-file=missing.gin"], "missing.gin"),
        ([LOCAL, "--import=no_such_module"], "no_such_module"),
        ([SMALL], "task.train_data.input_path != ''"),
        ([LOCAL, "--mode=eval"], "holds no checkpoint"),
        ([LOCAL, "--stepz=3"], "No such flag '--stepz'"),
    ],
)
def test_bad_input_is_one_message_exit_2_and_nothing_written(tmp_path, quintain, flags, message):
    model_dir = tmp_path / "run"

    code, stdout, stderr = quintain("train", *flags, f"--model-dir={model_dir}")

    assert code == 2
    assert stdout == ""
    assert message in stderr
    assert "Traceback" not in stderr
    assert not model_dir.exists()


@pytest.mark.long(
    "Further cases of a test of which some run every time",
    but=["a\\tb\\nc\\n-a\\tb\\n-t.tsv:2", "train6-a\\tb\\nc\\n-v.tsv:2"],
)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("train", "valid", "message"),
    [
        (None, b"a\tb\n", "t.tsv"),
        (b"", b"a\tb\n", "t.tsv"),
        (b"a\tb\n", b"", "v.tsv"),
        (b"a\tb\n", None, "v.tsv"),
        (b"a\tb\nc\n", b"a\tb\n", "t.tsv:2"),
        (b"a\tb\nc\xff\td\n", b"a\tb\n", "t.tsv:2"),
        (b"a\tb\n" * 50, b"a\tb\nc\n", "v.tsv:2"),
    ],
)
def test_bad_data_names_file_and_line_and_nothing_is_written(
    tmp_path, quintain, train, valid, message
):
    for name, content in (("t.tsv", train), ("v.tsv", valid)):
        if content is not None:
            (tmp_path / name).write_bytes(content)

    code, _, stderr = quintain(
        "train",
        SMALL,
        *data_flags(tmp_path / "t.tsv", tmp_path / "v.tsv"),
        f"--model-dir={tmp_path / 'run'}",
    )

    assert code == 2
    assert message in stderr
    assert "Traceback" not in stderr
    assert not (tmp_path / "run").exists()


def test_aligned_files_of_different_length_are_refused(tmp_path, quintain):
    (tmp_path / "a.en").write_text("one\ntwo\n")
    (tmp_path / "a.de").write_text("eins\n")

    code, _, stderr = quintain(
        "train",
        SMALL,
        *data_flags(tmp_path / "a.en", tmp_path / "a.en"),
        f"--set=task.train_data.target_path={tmp_path / 'a.de'}",
        f"--set=task.validation_data.target_path={tmp_path / 'a.de'}",
        f"--model-dir={tmp_path / 'run'}",
    )

    assert code == 2
    assert "a.en" in stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_the_directory_of_another_experiment_is_refused(run_dir, quintain):
    before = sorted(path.name for path in run_dir.iterdir())

    code, _, stderr = quintain(
        "train",
        "--experiment=wmt_transformer/base",
        f"--model-dir={run_dir}",
        *data_flags("a.tsv", "b.tsv"),
    )

    assert code == 2
    assert "belongs to the experiment 'translation/local'" in stderr
    assert sorted(path.name for path in run_dir.iterdir()) == before


def test_a_file_in_place_of_the_model_dir_is_refused(tmp_path, quintain):
    (tmp_path / "run").write_text("")

    code, _, stderr = quintain("train", LOCAL, f"--model-dir={tmp_path / 'run'}")

    assert code == 2
    assert "is a file, not a directory" in stderr


def test_a_model_dir_that_cannot_be_written_is_refused(quintain):
    code, _, stderr = quintain("train", LOCAL, "--model-dir=/proc/quintain/run")

    assert code == 2
    assert "can't be written to" in stderr
    assert "evaluate a copy" not in stderr


@pytest.mark.long("Further cases of a test of which some run every time", but=["15-143"])
@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_and_prints_the_command_to_go_on(tmp_path, tiny, number, exit_code):
    model_dir = tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "quintain.garden.nlp.train",
        LOCAL,
        f"--model-dir={model_dir}",
        tiny,
    ]
    process = subprocess.Popen(
        [
            *command,
            "--set=trainer.train_steps=1000000",
            "--set=trainer.validation_interval=1000000",
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not list(model_dir.glob("ckpt-*.index")):
        time.sleep(0.05)

    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)

    assert process.returncode == exit_code, stderr
    assert f"Stopped by {number.name} at step" in stderr
    assert stderr.count("Stopped") == 1
    assert f"quintain train {LOCAL} --model-dir={model_dir}" in stderr


def test_help_names_every_mode(quintain):
    code, stdout, _ = quintain("train", "--help")

    assert code == 0
    text = " ".join(stdout.split())
    for mode in run_mode.Mode:
        assert mode.value in text
    for flag in ("--profile", "--allow-config-change", "--local-workers", "--gin-file"):
        assert flag in text


def test_flags_are_those_of_the_reference_that_were_read(quintain):
    _, stdout, _ = quintain("train", "--help")

    shown = set(stdout.replace("/", " ").split())
    assert shown >= {
        "--experiment",
        "--mode",
        "--model-dir",
        "--config-file",
        "--set",
        "--gin-file",
        "--gin-params",
        "--tpu",
        "--tf-data-service",
        "--pretrain-steps",
        "--enable-async-checkpointing",
        "--noenable-async-checkpointing",
    }
    assert "--params-override" not in stdout  # It works, as other tests show; `--set` is shown.
    for flag in ("--tpu-platform", "--tfhub-handle", "--tflex-output-uri"):
        code, _, stderr = quintain("train", f"{flag}=x")
        assert code == 2
        assert flag in stderr


def test_other_settings_for_a_run_are_shown_and_refused(run_dir, quintain):
    change = "trainer.optimizer_config.optimizer.type=sgd"
    code, _, stderr = quintain("train", f"--model-dir={run_dir}", "--set", change)

    assert code == 2
    assert "trainer.optimizer_config.optimizer.type: 'adam" in stderr
    assert "--allow-config-change" in stderr


def test_a_malformed_profile_is_refused_before_anything_starts(tmp_path, quintain, tiny):
    directory = tmp_path / "run"
    flags = ["--experiment=translation/local", f"--model-dir={directory}", tiny, "--profile=9:3"]

    code, _, stderr = quintain("train", *flags)

    assert code == 2
    assert "--profile: got '9:3'" in stderr
    assert not directory.exists()


@pytest.mark.parametrize("flag", ["--mode=eval", "--mode=continuous_train_and_eval", "--dry-run"])
def test_a_profile_of_no_training_is_refused(tmp_path, quintain, tiny, flag):
    directory = f"--model-dir={tmp_path / 'run'}"

    code, _, stderr = quintain(
        "train", "--experiment=translation/local", directory, tiny, "--profile=1:2", flag
    )

    assert code == 2
    assert f"--profile: got '1:2' with {flag}" in stderr


@pytest.mark.parametrize(
    "flag", ["--mode=eval", "--mode=continuous_train_and_eval", "--dry-run", "--local-workers=2"]
)
def test_a_standby_of_anything_but_one_training_is_refused(tmp_path, quintain, tiny, flag):
    directory = f"--model-dir={tmp_path / 'run'}"

    code, _, stderr = quintain(
        "train", "--experiment=translation/local", directory, tiny, "--standby", flag
    )

    assert code == 2
    assert f"--standby: got it with {flag.removesuffix('=2')}" in stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.long("tests/cli/display shows the lines")
@pytest.mark.slow
def test_the_suggested_commands_have_the_gin_flags_of_this_one(tmp_path, quintain, tiny):
    directory = tmp_path / "run"
    file = tmp_path / "a file.gin"
    file.write_text("create_trainer.checkpoint_exporter = None\n")
    flags = ["--experiment=translation/local", "--mode=train", tiny, f"--gin-file={file}"]

    try:
        code, _, stderr = quintain(
            "train", *flags, "--gin-params=Trainer.train_dataset = None", f"--model-dir={directory}"
        )
    finally:
        gin_io.clear()

    assert code == 0
    gin_flags = f"--gin-file='{file}' --gin-params='Trainer.train_dataset = None'"
    assert f"--model-dir={directory} {gin_flags} --set trainer.train_steps=8" in stderr
    assert f"--mode=eval --model-dir={directory} {gin_flags}" in stderr


def test_a_lost_process_is_no_bad_input(quintain, monkeypatch, tmp_path):
    def fail(*args, **kwargs):
        raise errors.ClusterError("A worker is gone.")

    monkeypatch.setattr(experiment_parser, "parse", fail)

    code, _, stderr = quintain("train", LOCAL, f"--model-dir={tmp_path}")

    assert code == 1
    assert stderr.endswith("Error: A worker is gone.\n")


@pytest.mark.long("tests/nlp/tasks has two vocabularies, tests/e2e/test_roads.py the way")
@pytest.mark.slow
def test_a_run_with_two_vocabularies_is_trained_averaged_evaluated_and_translated(
    tmp_path, quintain, tiny
):
    pairs = [(f"one two {number}", f"eins zwei {number}") for number in range(80)]
    train = write_pairs(tmp_path / "t.tsv", pairs)
    run = tmp_path / "run"
    flags = [SMALL, tiny, "--set=task.share_vocabulary=false"]
    flags.append(
        f"--set=task.train_data.mixture=[{{input_path: {train}}}, {{input_path: {train}}}]"
    )
    flags.append(f"--set=task.validation_data.input_path={train}")

    code, _, stderr = quintain("train", *flags, f"--model-dir={run}")

    assert code == 0, stderr
    assert stderr.count("  hypothesis  ") == 3
    assert f"Translations at step 4 (64 in {run}/translations/step-4.tsv):" in stderr
    assert "perplexity" in stderr
    assert {"vocabulary.model", "target_vocabulary.model", "vocabulary.json"} <= {
        path.name for path in run.iterdir()
    }

    code, stdout, stderr = quintain("checkpoint", "average", f"--model-dir={run}")
    assert code == 0, stderr
    average = run / "averaged"
    assert f"Averaged 2 checkpoints; wrote {average / 'ckpt-4'}." in stdout

    code, stdout, stderr = quintain("train", "--mode=eval", f"--model-dir={average}", "--json")
    assert code == 0, stderr
    assert json.loads(stdout)["perplexity"] > 1
    assert "hypothesis" not in stderr

    code, stdout, stderr = quintain(
        "translate", f"--model-dir={run}", f"--checkpoint={average / 'ckpt-4'}", "one two 7"
    )
    assert code == 0, stderr
    assert len(stdout.splitlines()) == 1

    (run / "target_vocabulary.model").write_bytes((run / "vocabulary.model").read_bytes())
    code, _, stderr = quintain("translate", f"--model-dir={run}", "one two 7")
    assert code == 2
    assert "target_vocabulary.model: is not the vocabulary that this run was trained with" in stderr
