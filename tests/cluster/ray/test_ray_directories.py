import json
import logging

import pytest

from quintain.cluster.agents import agent_directory
from quintain.cluster.ray import ray_directories
from quintain.records import process_identity
from quintain.records.rows import trial


@pytest.fixture
def make(tmp_path):
    def make(name, home_id="home", **changes):
        path = ray_directories.find(str(tmp_path), "home", name)
        found = agent_directory.AgentDirectory(path)
        with found.hold():
            ray_directories.mark(found, home_id, name)
        note = path / "agent" / "ray_node.json"
        note.write_text(json.dumps({**json.loads(note.read_text()), **changes}))
        return found

    return make


def test_only_what_is_surely_ours_and_surely_gone_is_deleted(make, tmp_path, caplog):
    own, gone = make("own"), make("gone")
    restarted = make("restarted", place="before 1")
    kept = [
        make("alive"),
        make("theirs", home_id="another"),
        make("elsewhere", machine="another"),
        make("contained", place=process_identity.find_place() + "1"),
        make("unknown", node_id=None),
    ]
    (tmp_path / "home" / "by hand").mkdir()
    (tmp_path / "home" / "link").symlink_to(gone.path)
    working, held = make("working"), make("held")
    working.save(agent_directory.LaunchRecord("1-a", 1, process_identity.find(1, "1-a")))
    gone.save(agent_directory.LaunchRecord("1-b", 1, trial.ProcessIdentity(1, 1.0, "1-b", "old")))

    gone.scratch_dir("1-b").mkdir(parents=True)
    (gone.scratch_dir("1-b") / "1-b.log").write_text("x" * 70)
    caplog.set_level(logging.INFO)

    with held.hold():
        deleted = ray_directories.delete_gone(own, "home", {"own", "alive"})

    assert deleted == [gone.path, restarted.path]
    assert not gone.path.exists()
    assert "70 bytes of logs were not stored" in caplog.text
    left = [*(each.path.name for each in (own, working, held, *kept)), "by hand", "link"]
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == sorted(left)


@pytest.mark.parametrize("content", ["", "[]", "{", "\0"])
def test_a_note_that_can_not_be_read_deletes_nothing(make, content):
    own, gone = make("own"), make("gone")
    (gone.path / "agent" / "ray_node.json").write_text(content)
    assert ray_directories.delete_gone(own, "home", {"own"}) == []
    assert gone.path.exists()
