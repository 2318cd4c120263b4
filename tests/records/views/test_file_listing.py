import pytest

from quintain import errors
from quintain.records.views import file_listing


def test_files_are_written_below_the_directory(tmp_path):
    target = file_listing.make_target(tmp_path / "new", "data/a b.txt")
    assert target == tmp_path / "new/data/a b.txt"
    assert target.parent.is_dir()


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/x", "", ".", "..", "link/x", "out"])
def test_no_name_leads_out_of_the_directory(tmp_path, name):
    directory, outside = tmp_path / "in", tmp_path / "outside"
    directory.mkdir()
    outside.mkdir()
    (directory / "link").symlink_to(outside)
    (directory / "out").symlink_to(outside / "new")
    with pytest.raises(errors.DataError, match="leads out of"):
        file_listing.make_target(directory, name)
    assert list(outside.iterdir()) == []
