import csv
import json

import pytest
from pyarrow import parquet


def read_tables(directory, kind):
    if kind == "csv":
        return {
            one.stem: list(csv.DictReader(one.read_text().splitlines()))
            for one in directory.glob("*.csv")
        }
    return {
        one.stem: [json.loads(line) for line in one.read_text().splitlines()]
        for one in directory.glob("*.jsonl")
    }


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_all_that_is_known_is_written(quintain, calls_fake, tmp_path, kind):
    directory = tmp_path / "a ü [1]"

    code, stdout, stderr = quintain("experiment", "export-data", 1, directory, "--format", kind)

    assert (code, stdout) == (0, "")
    assert "Wrote 3 trials, " in stderr
    tables = read_tables(directory, kind)
    assert set(tables) == {"trials", "metrics", "checkpoints", "logs"}
    assert [str(row["hparams.lr"]) for row in tables["trials"]][:2] == ["0.1", "0.05"]
    assert {"trial_id", "group", "name", "total_batches", "time", "value", "text"} == set(
        tables["metrics"][0]
    )
    assert json.loads((directory / "experiment.json").read_text())["id"] == 1
    assert list(directory.parent.glob(".*")) == []


def test_parquet_keeps_types(quintain, calls_fake, tmp_path):
    quintain("experiment", "export-data", 1, tmp_path / "x", "--format=parquet", "--no-logs")

    trials = parquet.read_table(tmp_path / "x" / "trials.parquet").to_pydict()
    assert trials["hparams.net.units"][0] == 8
    metrics = parquet.read_table(tmp_path / "x" / "metrics.parquet")
    assert str(metrics.schema.field("value").type) == "double"
    assert not (tmp_path / "x" / "logs.parquet").exists()


def test_what_is_there_is_never_written_over(quintain, calls_fake, tmp_path):
    code, _, stderr = quintain("experiment", "export-data", 1, tmp_path)

    assert code == 2
    assert "exists already" in stderr


def test_of_two_exports_at_once_the_later_is_told_and_leaves_nothing(
    quintain, calls_fake, tmp_path, monkeypatch
):
    directory = tmp_path / "x"
    list_logs = calls_fake.list_logs

    def make_meanwhile(*arguments, **options):
        (directory / "other").mkdir(parents=True, exist_ok=True)
        return list_logs(*arguments, **options)

    monkeypatch.setattr(calls_fake, "list_logs", make_meanwhile)

    code, _, stderr = quintain("experiment", "export-data", 1, directory)

    assert code == 2
    assert "exists already" in stderr
    assert [path.name for path in tmp_path.rglob("*") if "home" not in path.parts] == ["x", "other"]
