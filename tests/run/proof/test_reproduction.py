"""Runs built anew from a receipt, and refused where code or data are not those of the receipt."""

import json

import pytest

import quintain
from quintain import errors
from quintain.checkpoints import receipts
from quintain.input import file_marks
from quintain.run import train_lib
from quintain.run.proof import reproduction
from tests.line_task import line_params, line_task_is_registered

__all__ = ["line_params", "line_task_is_registered"]


def write_receipt(path, **facts):
    plain = {"config": {"experiment": "test/line"}, "code": {}, "data": {}} | facts
    parts = receipts.find_part_roots({})
    hashes = {name: receipts.hash_json(value) for name, value in plain.items()}
    head = {"format": 1, "step": 1, "parts": parts, "root": receipts.merkle_root(parts), **hashes}
    path.write_text(json.dumps({"head": head, "leaves": {}, "facts": plain}))
    return str(path)


def test_lists_code_and_data_that_are_not_those_of_the_receipt(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_code_a.py").write_text("A = 1\n")
    (tmp_path / "data.csv").write_text("1\n")
    data = str(tmp_path / "data.csv")
    path = write_receipt(
        tmp_path / "r.json",
        code={"quintain": "9.9", "own_code_a": "00", "own_code_b": "00"},
        data={data: "2:ab", f"{data}2": file_marks.describe(data)},
    )

    with pytest.raises(errors.ConfigError) as caught:
        reproduction.reproduce(path, str(tmp_path / "new"))

    assert [line.strip() for line in str(caught.value).splitlines()[1:-1]] == [
        f"quintain: version 9.9, here {quintain.__version__}",
        f"module own_code_a: {tmp_path / 'own_code_a.py'} has other content",
        "module own_code_b: not found",
        f"data {data}2: not found",
        f"data {data}: has other content",
    ]
    assert not (tmp_path / "new").exists()


def test_refuses_edited_receipts_and_directories_in_use(tmp_path):
    path = write_receipt(tmp_path / "r.json")
    with pytest.raises(errors.ConfigError, match="is in use"):
        reproduction.reproduce(path, str(tmp_path))
    (tmp_path / "r.json").write_text((tmp_path / "r.json").read_text().replace("line", "lime"))
    with pytest.raises(errors.CheckpointError, match="was edited: its config"):
        reproduction.reproduce(path, str(tmp_path / "new"))
    with pytest.raises(errors.ConfigError, match="names no experiment"):
        reproduction.reproduce(write_receipt(tmp_path / "r", config={}), str(tmp_path / "new"))


@pytest.mark.slow
def test_a_run_built_anew_is_equal_to_the_bit(tmp_path, line_params):
    params = line_params({"runtime": {"seed": 3}})
    params.lock()
    train_lib.train_from_config(params, "train", str(tmp_path / "a"), experiment="test/line")

    path = str(tmp_path / "a" / "ckpt-20.receipt.json")

    assert reproduction.reproduce(path, str(tmp_path / "b")) == []
