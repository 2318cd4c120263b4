import dataclasses

import pytest

from quintain import store as stores
from quintain.client.home import home as home_lib
from quintain.master.processes import starters
from quintain.records.rows import states
from quintain.server import launchers
from quintain.testing import store_case


@pytest.mark.parametrize(
    ("state", "libraries"),
    [(states.ExperimentState.ACTIVE, {"scipy"}), (states.ExperimentState.COMPLETED, set())],
)
def test_processes_are_kept_ready_for_the_experiment_that_goes_on(
    tmp_path, monkeypatch, state, libraries
):
    code = tmp_path / "code"
    code.mkdir()
    (code / "model_def.py").write_text("import scipy\nclass Digits(KerasTrial): ...")
    store = stores.open_store(tmp_path / "quintain.db")
    with store.transaction() as session:
        record = store_case.new_experiment()
        session.add_experiment(dataclasses.replace(record, state=state, model_dir=str(code)))
    warmed = []
    monkeypatch.setattr(
        starters.ForkStarter, "warm_up", lambda starter: warmed.append(set(starter._modules))
    )
    settings = launchers.LauncherSettings(launchers.LauncherKind.LOCAL)

    launcher = launchers.build(settings, home_lib.Home(tmp_path), store, has_slots=True)

    (modules,) = warmed
    assert modules & {"scipy"} == libraries
    launcher.close(kill=False)
    store.close()
