import dataclasses
import json

import pytest

from quintain import errors
from quintain.client.home import home as home_lib
from quintain.records import checkpoint_manifest
from quintain.records.rows import checkpoint
from quintain.server import exports
from quintain.store import store as store_lib
from quintain.testing import store_case

UUID = "0b1c2d3e-0000-0000-0000-000000000001"


@pytest.fixture
def home(tmp_path):
    """A home with the checkpoint of a trial."""
    home = home_lib.find_home(str(tmp_path / "home"))
    home.create()
    store = store_lib.open_store(home.database)
    with store.transaction() as session:
        owner = session.add_experiment(store_case.new_experiment()).id
        trial_id = session.add_trial(store_case.new_trial(owner)).id
        session.add_checkpoint(checkpoint.Checkpoint(UUID, trial_id, owner, 5))
    store.close()
    (home.checkpoints / UUID).mkdir(parents=True)
    manifest = checkpoint_manifest.Manifest(1, "KerasTrialController", 5, owner, trial_id, 1, {})
    text = json.dumps(dataclasses.asdict(manifest))
    (home.checkpoints / UUID / checkpoint_manifest.FILE_NAME).write_text(text)
    return home


@pytest.mark.slow
@pytest.mark.e2e
def test_models_are_exported_once_and_refusals_leave_nothing(home):
    made = exports.Exports(home)
    words = r"^checkpoint .*: there is no SavedModel and no \.keras file in it"
    with pytest.raises(errors.ConfigError, match=words):
        made.export(UUID)
    assert list((home.path / "exports").iterdir()) == []
    with pytest.raises(errors.NotFoundError, match="was not exported yet"):
        made.find(UUID)

    (home.checkpoints / UUID / "model.keras").write_text("model")
    directory = made.export(UUID)

    assert [path.name for path in directory.iterdir()] == ["model.keras"]
    (directory / "mine").touch()
    assert made.export(UUID) == made.find(UUID) == directory
    assert (directory / "mine").exists()
