"""A cookie changes hyperparameters and the like; whatever could run a command needs a token."""

import json
import types

import pytest
import urllib3

from quintain import errors
from quintain.master import master as master_lib
from quintain.master import new_experiments
from quintain.master.placing import slots
from quintain.master.processes import launch_tokens
from quintain.records import team
from quintain.records.views import master_status
from quintain.server import app as app_lib
from quintain.server import direct_calls, page_rights
from quintain.server.security import access
from quintain.server.security import sessions as sessions_lib
from quintain.server.security import sign_in as sign_in_lib
from quintain.store import store as store_lib
from quintain.testing import idle_launcher

KEY = launch_tokens.LaunchKey(bytes(32))
CONFIG = """
name: digits
entrypoint: model_def:Digits
hyperparameters: {lr: {type: double, minval: 0.1, maxval: 1}, global_batch_size: 10}
searcher: {name: random, metric: accuracy, max_trials: 2, max_length: {epochs: 1}}
records_per_epoch: 100
min_validation_period: {epochs: 1}
alerts: [{webhook: "http://127.0.0.1/a"}]
"""
COMMAND = 'alerts=[{"command": "touch /tmp/x"}]'
FORBIDDEN = {
    COMMAND: "alerts",
    "checkpoint_storage.host_path=/tmp/elsewhere": "checkpoint_storage.host_path",
    "environment.environment_variables=[PYTHONPATH=/tmp/x]": "environment.environment_variables",
    "entrypoint=other:Class": "entrypoint",
    "data.path=/tmp/x": "data.path",
    "loggers=[{type: csv, path: /tmp/x}]": "loggers",
    "max_restarts=1": "max_restarts",
}
ALLOWED = [
    "name=better", "labels=[mine]", "description=a note", "resources.priority=3",
    "hyperparameters.units=3", "searcher.smaller_is_better=false",
    "reproducibility.experiment_seed=5",
    "max_restarts=5",  # The default, in more words.
]  # fmt: skip


@pytest.fixture
def store(home):
    opened = store_lib.open_store(str(home.database))
    yield opened
    opened.close()


@pytest.fixture
def master(store, home, tmp_path):
    """Returns a master with an experiment that was ended, with a trial."""
    (tmp_path / "code").mkdir()
    made = master_lib.Master(
        store, idle_launcher.IdleLauncher(), [slots.Slot(0)], home.path, launch_key=KEY
    )
    made.recover()
    made.commands.create_experiment(CONFIG, tmp_path / "code", activate=False)
    made.commands.apply(1, "cancel")
    made.tick()
    return made


@pytest.fixture
def sign_in():
    return sign_in_lib.SignIn("http://testserver", sessions_lib.Sessions(port=0))


@pytest.fixture
def app(store, home, master, sign_in):
    info = master_status.MasterInfo("1.2.3", str(home.path), "http://testserver", 12, 34.5)
    calls = direct_calls.DirectCalls(store, home, master.status)
    return app_lib.build_app(
        calls,
        master,
        info,
        token="t",
        launch_key=KEY,
        stop=lambda drain: None,
        services=app_lib.Services(sign_in, proxy=access.TrustedProxy("X-User", "127.0.0.1")),
    )


@pytest.fixture
def ask(url, sign_in):
    """Returns a function that asks by a token, or by a cookie as the page does."""
    sessions = sign_in.sessions
    by_page = {"Cookie": f"{sessions.cookie_name}={sessions.begin()}", "Origin": url}
    by_proxy = {"X-User": "ed", "Origin": url}
    headers = {
        "cookie": by_page, "token": {"Authorization": "Bearer t"}, "proxy": by_proxy,
    }  # fmt: skip

    def send(kind, method, path, **body):
        answer = urllib3.request(
            method, f"{url}/api/v1{path}", json=body, headers=headers[kind], retries=False
        )
        return types.SimpleNamespace(status=answer.status, json=json.loads(answer.data))

    return send


def list_changes(override):
    """Returns the requests that would change a config by an override."""
    text = json.dumps(new_experiments.read_content(CONFIG, "config", [override]))
    return [
        ("/experiments/1/fork", {"overrides": [override]}),
        ("/experiments/1/fork", {"config_text": text}),
        ("/experiments/check", {"overrides": [override], "parent_id": 1}),
        ("/experiments/check", {"config_text": text, "parent_id": 1}),
        ("/experiments/1/continue", {"overrides": ["searcher.max_length=20", override]}),
        ("/trials/1/continue", {"overrides": [override]}),
    ]


def test_a_cookie_changes_nothing_of_a_config_that_could_run_or_write_elsewhere(ask, store):
    for override, path in FORBIDDEN.items():
        for address, body in list_changes(override):
            answer = ask("cookie", "POST", address, **body)
            assert answer.status == 403, (address, body, answer.json)
            assert answer.json["error"]["kind"] == "UnauthorizedError"
            message = answer.json["error"]["message"]
            assert path in message.partition(": a browser may")[0].split(", "), message
            assert "command line, or a token" in message
    refused = ask("cookie", "PATCH", "/experiments/1", checkpoint_storage={"save_trial_best": 0})
    assert refused.status == 403
    assert "checkpoint_storage.save_trial_best" in refused.json["error"]["message"]
    assert ask("cookie", "POST", "/experiments", config_text=CONFIG).status == 403
    with store.reading() as session:
        assert len(session.list_experiments()) == 1


def test_nor_does_who_comes_by_a_proxy(ask, app):
    app.state.parts.roles.grant("ed", team.Role.EDITOR)
    for override in FORBIDDEN:
        for address, body in list_changes(override):
            assert ask("proxy", "POST", address, **body).status == 403, (address, body)
    assert ask("proxy", "POST", "/experiments/1/fork", overrides=["name=better"]).status == 201


def test_a_token_changes_all_of_it(ask):
    assert ask("token", "POST", "/experiments/1/fork", overrides=[COMMAND]).status == 201
    body = {"checkpoint_storage": {"save_trial_best": 0}}
    assert ask("token", "PATCH", "/experiments/1", **body).status == 200


def test_a_cookie_changes_what_is_searched(ask):
    text = CONFIG.replace("global_batch_size: 10", "global_batch_size: 20").replace("digits", "new")
    for body in (
        {}, {"overrides": ALLOWED}, {"config_text": text}, {"config_text": f"{text}notes: mine\n"}
    ):  # fmt: skip
        checked = ask("cookie", "POST", "/experiments/check", parent_id=1, **body)
        assert checked.status == 200, checked.json
        forked = ask("cookie", "POST", "/experiments/1/fork", **body)
        assert forked.status == 201, forked.json
        assert forked.json["config"]["alerts"][0]["webhook"] == "http://127.0.0.1/a"
    assert forked.json["config"]["min_validation_period"] == {"batches": 5}
    changes = {"description": "a", "labels": ["b"], "priority": 2, "max_slots": 3, "weight": 2.0}
    assert ask("cookie", "PATCH", "/experiments/2", **changes, max_trials=3).status == 200
    assert ask("cookie", "POST", "/trials/1/rerun").status == 201
    again = {"overrides": ["searcher.max_trials=4"]}
    assert ask("cookie", "POST", "/experiments/2/continue", **again).status == 200
    longer = {"overrides": ["searcher.max_length=20", "name=longer"]}
    assert ask("cookie", "POST", "/experiments/1/continue", **longer).status == 200


def test_a_config_that_is_not_valid_is_said_to_be_that(ask):
    for override in ("searcher.max_trials=-1", "nothing=1"):
        answer = ask("cookie", "POST", "/experiments/1/fork", overrides=[override])
        assert answer.status == 400, answer.json


def test_what_only_fits_together_with_a_forbidden_change_is_no_way_around_it():
    before = {"searcher": {"name": "single", "metric": "m", "max_length": {"batches": 9}}}
    after = {"searcher": {**before["searcher"], "max_length": {"epochs": 1}},
             "records_per_epoch": 32, "hyperparameters": {"global_batch_size": 8}}  # fmt: skip
    with pytest.raises(errors.UnauthorizedError, match=r"^records_per_epoch: a browser may"):
        page_rights.check(before, after)


def test_an_editor_of_a_project_makes_and_moves_experiments_there_only(url, app, home, store):
    app.state.parts.roles.grant("anna", team.Role.EDITOR, "speech")
    bearer = {"Authorization": f"Bearer {home.user_tokens.load('anna')}"}

    def send(path, **body):
        made = urllib3.request("POST", f"{url}/api/v1{path}", json=body, headers=bearer)
        return made.status, made.data.decode()

    for text in (CONFIG, f"{CONFIG}\nproject: other", f"{CONFIG}\nproject: ''"):
        assert send("/experiments/check", config_text=text)[0] == 403
        status, answer = send("/experiments", config_text=text, activate=False)
        assert status == 403
        assert "this is for editors of project " in answer
    overrides = ["project=speech", "entrypoint=experiment:translation/local"]
    status, answer = send("/experiments", config_text=CONFIG, overrides=overrides, activate=False)
    assert status == 201, answer
    made = json.loads(answer)["id"]
    assert send("/experiments/check", config_text=CONFIG, overrides=overrides)[0] == 200
    for source in ("learn_from=[99]", "inherited=[99]", "source_trial_id=99"):
        further = [*overrides, f"searcher.{source}"]
        status, answer = send("/experiments/check", config_text=CONFIG, overrides=further)
        assert status == 403, answer
        assert "99 is not there, or in a project that user anna may not read" in answer
    moved = send(f"/experiments/{made}/fork", overrides=["project=default"])
    assert moved[0] == 403
    with store.reading() as session:
        assert session.get_experiment(made).project == "speech"
