import types

import numpy as np
import pytest

from quintain.cli.display import closing_lines
from quintain.nlp.tasks import translation
from quintain.run import dry_run, train_lib
from quintain.settings import config_definitions as cfg


def show(capsys, result, *, mode="train_and_eval", task=None, imports=()):
    """Returns what is said at the end of a run in `my runs`."""
    params = cfg.ExperimentConfig(task=task or translation.TranslationConfig())
    closing_lines.show_result(
        types.SimpleNamespace(params=params, imports=imports),
        result,
        model_dir="my runs",
        mode=mode,
        secs=75.0,
        gin_flags="",
    )
    return capsys.readouterr().err.splitlines()


def test_a_finished_run_shows_its_metrics_and_how_to_use_it(capsys):
    logs = {"exact_match": np.float32(0.5), "new": {"per_class": np.array([1, 2])}}

    assert show(capsys, train_lib.TrainResult(step=8, train_steps=8, logs=logs)) == [
        "  exact_match    0.5000",
        "  new|per_class  [1 2]",
        "",
        "The run in my runs is complete (1:15). What next:",
        "  translate:      quintain translate --model-dir='my runs' \"...\"",
        "  serve:          quintain serve-model --model-dir='my runs'",
        "  train longer:   quintain train --model-dir='my runs' --set trainer.train_steps=16",
        "  evaluate:       quintain train --mode=eval --model-dir='my runs'",
        "  look at curves: quintain tensorboard --run='my runs'",
    ]


def test_a_run_that_was_stopped_can_be_gone_on_with(capsys):
    result = train_lib.TrainResult(step=4, train_steps=8, logs={}, is_stopped_early=True)

    lines = show(capsys, result, mode="eval", imports=("mine",))

    assert lines[1].startswith("The run in my runs is at step 4 of 8, where it was stopped early")
    assert lines[4:] == [
        "  resume:         quintain train --model-dir='my runs' --import=mine "
        "--set trainer.early_stopping.patience=N",
        "  look at curves: quintain tensorboard --run='my runs'",
    ]


@pytest.mark.parametrize(
    ("path", "sentence"),
    [("bundled:numbers_and_dates/valid", "Sunday, the twenty-second of March"), ("a.tsv", "...")],
)
def test_a_sentence_of_the_corpus_of_the_package_is_there_to_try(capsys, path, sentence):
    task = translation.TranslationConfig()
    task.validation_data.input_path = path

    lines = show(capsys, train_lib.TrainResult(step=8, train_steps=8, logs={}), task=task)

    assert lines[2] == f"  translate:      quintain translate --model-dir='my runs' \"{sentence}\""


@pytest.mark.parametrize("tokens", [512, 0])
def test_a_dry_run_shows_sizes_and_times(capsys, tokens):
    report = dry_run.DryRunReport(
        num_parameters=1_234_567,
        layers={"encoder": 1_000_000, "head": 234_567},
        checkpoint_bytes=5_000_000,
        peak_memory_bytes=2**31,
        batch_examples=64,
        batch_tokens=tokens,
        loss=5.0,
        first_step_secs=2.25,
        step_secs=0.01,
        train_steps=7_276,
        eval_logs={"validation_loss": 5.5},
    )

    closing_lines.show_dry_run("translation/local", report)

    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        "encoder      1,000,000  ####################",
        "head           234,567  #####",
        "",
    ]
    assert shown.err.splitlines() == [
        "  experiment                 translation/local",
        "  parameters                 1,234,567",
        "  checkpoint                 4.8 MiB",
        "  peak memory                2.0 GiB",
        f"  batch                      64 examples{', 512 tokens' if tokens else ''}",
        "  first loss                 5.0000",
        "  first step                 2.2 s, compilation included",
        "  step                       10 ms",
        "  training                   7,276 steps, about 1:15",
        "  evaluated validation_loss  5.5",
        "Nothing was kept. Leave --dry-run out to train.",
    ]
