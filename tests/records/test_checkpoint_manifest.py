import json

import pytest

from quintain import errors
from quintain.records import checkpoint_manifest
from quintain.records.views import file_listing


@pytest.fixture
def directory(tmp_path):
    """Returns a checkpoint of two files."""
    directory = tmp_path / "a [1] ü" / "0b1c2d3e"
    (directory / "variables").mkdir(parents=True)
    (directory / "variables" / "data").write_bytes(b"weights")
    (directory / "state.json").write_text("{}")
    content = {"format": 1, "kind": "K", "total_batches": 5, "experiment_id": 1, "trial_id": 2}
    content |= {"seed": 3, "hparams": {"lr": 0.1}}
    content["sizes"] = checkpoint_manifest.list_files(directory)
    content["hashes"] = checkpoint_manifest.hash_files(directory)
    (directory / "metadata.json").write_text(json.dumps(content))
    return directory


def test_a_checkpoint_that_is_as_it_was_written_is_whole(directory):
    assert checkpoint_manifest.find_damage(directory, {}) is None
    assert checkpoint_manifest.read(directory).hparams == {"lr": 0.1}


@pytest.mark.parametrize("file", ["variables/data", "state.json", "metadata.json"])
@pytest.mark.parametrize("kind", ["empty", "half", "zeros", "gone"])
def test_every_kind_of_damage_names_the_file(directory, file, kind):
    path = directory / file
    data = path.read_bytes()
    damaged = {"empty": b"", "half": data[: len(data) // 2], "zeros": bytes(len(data))}
    if kind == "gone":
        path.unlink()
    else:
        path.write_bytes(damaged[kind])

    assert file in checkpoint_manifest.find_damage(directory, {})


def test_sizes_from_elsewhere_are_looked_at_where_the_manifest_has_none(directory):
    content = json.loads((directory / "metadata.json").read_text())
    del content["hashes"], content["sizes"]
    (directory / "metadata.json").write_text(json.dumps(content))

    assert checkpoint_manifest.find_damage(directory, {"variables/data": 7}) is None
    damage = checkpoint_manifest.find_damage(directory, {"variables/": 0, "variables/data": 8})
    assert damage == "variables/data has 7 bytes, expected 8"


def test_a_storage_that_is_not_there_says_nothing_about_a_checkpoint(tmp_path):
    for place in (tmp_path / "unmounted", tmp_path):  # Where nothing is mounted, it may be empty.
        with pytest.raises(errors.DiskAwayError, match="Is its disk mounted"):
            checkpoint_manifest.find_damage(place / "0b1c2d3e", {})
    (tmp_path / file_listing.mark_name("home")).touch()
    assert "not there" in checkpoint_manifest.find_damage(tmp_path / "0b1c2d3e", {})


@pytest.mark.parametrize(
    "change",
    [
        {"hashes": 5},
        {"hashes": ["a"]},
        {"hashes": {"state.json": 7}},
        {"hashes": {"/dev/zero": "0"}},
        {"hashes": {"../state.json": "0"}},
        {"sizes": {"state.json": "7"}},
        {"sizes": None},
        {"hparams": []},
        {"trial_id": "2"},
        {"experiment_id": 1.5},
        {"total_batches": True},
        {"home_id": {}},
        {"launch_id": ["a"]},
        {"kind": None},
    ],
    ids=str,
)
def test_a_manifest_that_anybody_may_have_written_is_read_with_care(directory, change):
    path = directory / "metadata.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))

    with pytest.raises(errors.CheckpointError, match="can't be understood"):
        checkpoint_manifest.read(directory)
    assert checkpoint_manifest.find_damage(directory, {}) == "metadata.json can't be read"
