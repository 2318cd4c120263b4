import pathlib

import pytest
from tensorboard.backend.event_processing import event_file_loader

from quintain import errors
from quintain.loggers import csv_logger, metric_logger


def test_csv_has_a_column_for_each_metric_and_a_row_for_each_step(run, make_points):
    built = csv_logger.CsvLogger()
    built.open(run, "")
    built.log(make_points("training", 1, 2))
    later = metric_logger.Point("training", 2, 7.0, {"accuracy": 0.5})
    built.log([later, *make_points("validation", 2)])

    files = {path.name: path.read_text() for path in pathlib.Path(run.directory).iterdir()}
    assert files == {
        "training.csv": "step,time,loss,accuracy\n1,1000000001.0,1.0,\n2,7.0,,0.5\n",
        "validation.csv": "step,time,loss\n2,1000000002.0,0.5\n",
    }


def test_csv_has_a_column_with_a_name_that_no_spreadsheet_takes_for_a_formula(run):
    built = csv_logger.CsvLogger()
    built.open(run, "")
    for step in (1, 2):
        built.log([metric_logger.Point("training", step, 7.0, {"-loss": -0.5})])

    text = pathlib.Path(run.directory, "training.csv").read_text()
    assert text == "step,time,'-loss\n1,7.0,-0.5\n2,7.0,-0.5\n"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {},
            "x.type: got None, expected 'csv', 'mlflow', .*'wandb', or module:Class.",
        ),
        ({"type": "mlfow"}, "x.type: got 'mlfow', .*Did you mean 'mlflow'?"),
        ({"type": "csv", "directry": "a"}, "x.directry: unknown; .* Did you mean 'directory'?"),
        ({"type": "csv", "directory": 3}, "x.directory: got 3, expected a string or None"),
        ({"type": "mlflow", "tags": ["a"]}, r"x.tags: got \['a'\], expected a mapping"),
        ({"type": "wandb", "project": {}}, "x.project: got {}, expected a string"),
        ({"type": "no_such_module:A"}, "x.type: got 'no_such_module:A': No module named"),
        ({"type": "pathlib:Paht"}, "pathlib has no 'Paht'. Did you mean 'Path'?"),
        ({"type": "pathlib:PurePath"}, "is no quintain.loggers.metric_logger.MetricLogger"),
        (
            {"type": "fractions:Decimal", "context": 1},
            "'fractions:Decimal' can't be built: TypeError",
        ),
    ],
)
def test_a_mistake_is_told_by_its_place(config, message):
    with pytest.raises(errors.ConfigError, match=message):
        metric_logger.build(config, "x")


def test_a_package_that_is_missing_is_named_with_its_extra():
    with pytest.raises(errors.ConfigError, match=r"pip install 'quintain\[wandb\]'"):
        metric_logger.import_service("no_such_package", "wandb")


def test_tensorboard_reads_what_is_written(run, make_points):
    built = metric_logger.build({"type": "tensorboard"}, "x")
    built.open(run, "")
    built.log([*make_points("training", 1, 2), *make_points("validation", 2)])

    (path,) = pathlib.Path(run.directory).iterdir()
    events = event_file_loader.LegacyEventFileLoader(str(path)).Load()
    assert [
        (event.step, event.wall_time, value.tag, value.simple_value)
        for event in events
        for value in event.summary.value
    ] == [
        (1, 1e9 + 1, "training/loss", 1.0),
        (2, 1e9 + 2, "training/loss", 0.5),
        (2, 1e9 + 2, "validation/loss", 0.5),
    ]
