"""What all storages have to do."""

import pytest

from quintain import errors
from quintain.records import checkpoint_manifest
from quintain.storage import storages

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def test_checkpoint_comes_back_as_it_was_written(any_storage, tmp_path, given):
    any_storage.check()
    name = "0b1c2d3e-0000-4000-8000-000000000001"
    staged = any_storage.stage(name)
    sizes = given.write(staged)
    hashes = checkpoint_manifest.hash_files(staged)

    any_storage.commit(staged, name)
    found = any_storage.fetch(name, tmp_path / "copy", sizes)

    assert checkpoint_manifest.hash_files(found) == hashes
    assert checkpoint_manifest.list_files(found) == sizes
    assert not staged.exists()
    assert [(each.name, each.is_complete) for each in any_storage.list()] == [(name, True)]
    assert any_storage.list()[0].num_bytes == sum(sizes.values())
    assert any_storage.find_damage(name, sizes) is None
    assert any_storage.read_manifest(name).hparams == {"lr": 0.1}
    with any_storage.open(name, "vari ables/data*[0]") as file:
        file.seek(255)
        assert file.read(2) == b"\xff\x00"


def test_storage_is_built_again_from_its_address(any_storage, given):
    name = given.save(any_storage)

    again = storages.open_address(any_storage.address)

    assert again.place == any_storage.place
    assert again.list_files(name) == any_storage.list_files(name)


def test_what_lacks_a_file_becomes_no_checkpoint(storage, given):
    name = "0b1c2d3e-0000-4000-8000-000000000004"
    staged = storage.stage(name)
    given.write(staged, sizes={"missing": 6})

    with pytest.raises(errors.CheckpointError, match="missing is not there"):
        storage.commit(staged, name)

    assert storage.list() == []


def test_delete_leaves_nothing_and_may_be_repeated(any_storage, given):
    gone, kept = given.save(any_storage), given.save(any_storage)

    any_storage.delete(gone)
    any_storage.delete(gone)

    assert [each.name for each in any_storage.list()] == [kept]
    assert any_storage.find_files(gone) == {}
    with pytest.raises(errors.CheckpointError, match="is not there"):
        any_storage.list_files(gone)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "missing", ""])
def test_files_of_others_are_not_opened(any_storage, path, given):
    name = given.save(any_storage)

    with pytest.raises(errors.NotFoundError):
        any_storage.open(name, path)
