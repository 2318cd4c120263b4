"""What viewers, editors and admins may do, over all projects and over one."""

import re

import pytest

from quintain import errors
from quintain.client import address, master_client
from quintain.client.http import connection
from quintain.records import team
from quintain.records.rows import experiment, launch, node, states, trial
from quintain.server.http import responses
from quintain.server.security import path_rules
from quintain.server.security import roles as roles_lib
from tests.server.conftest import CONFIG, UUID

GOOD = {"trial_id": "1", "launch_id": "1-1", "experiment_id": "1", "uuid": UUID}
NOT_CHANGING = {("POST", "/master/sign-in"), ("POST", "/master/sign-out")}
CALLS = [
    (method, path)
    for path, methods in path_rules.TABLE.items()
    for method, rule in methods.items()
    if path_rules.Client.USER in rule.clients
]
BY_ID = ("audit", "checkpoints", "timeline", "trials")
CHANGING = [each for each in CALLS if each[0] != "GET" and each not in NOT_CHANGING]


def fill(path, **values):
    values = {**GOOD, **values}
    named = re.sub(r"\{(\w+)(:path)?\}", lambda found: values.get(found[1], "a"), path)
    return responses.PREFIX + named


@pytest.fixture
def speech(store):
    """Experiment 2, with trial 3, of another project."""
    with store.transaction() as session:
        session.add_experiment(
            experiment.Experiment(
                0, states.ExperimentState.ACTIVE, {**CONFIG, "project": "speech"}, "", ""
            )
        )
        session.add_trial(trial.TrialRecord(0, 2, "r1", states.TrialState.ACTIVE, {"lr": 0.1}, 3))
    return 2


@pytest.fixture
def as_user(http, home, app):
    """Returns a function that gives a user roles by project, and then sends requests as them."""

    def start(name, **roles):
        for project, role in roles.items():
            project = team.ALL_PROJECTS if project == "everywhere" else project
            app.state.parts.roles.grant(name, team.Role(role), project)
        bearer = f"Bearer {home.user_tokens.load(name)}"

        def send(method, path, **given):
            return http(method, path, authorization=bearer, **given)

        return send

    return start


@pytest.mark.parametrize(("method", "path"), CHANGING)
def test_a_viewer_changes_nothing(as_user, master, stops, store, method, path):
    answer = as_user("anna", everywhere="viewer")(method, fill(path), body={})

    assert answer.status == 403
    assert "User anna is viewer of all projects, but this is for" in answer.text
    assert "quintain user grant anna" in answer.text
    assert (master.calls, master.results, stops) == ([], [], [])
    with store.reading() as session:
        assert session.get_audit() == []


def test_a_user_without_a_role_may_do_nothing(as_user, master):
    send = as_user("anna")
    for method, path in CALLS:
        answer = send(method, fill(path), body=None if method == "GET" else {})
        assert answer.status == 403, (method, path)
        assert "User anna is without a role" in answer.text
    assert master.calls == []


def test_a_viewer_reads(as_user):
    send = as_user("anna", everywhere="viewer")
    for path in ("/experiments/1", "/experiments", "/trials", "/checkpoints", "/runs", "/audit"):
        assert send("GET", f"{responses.PREFIX}{path}").status == 200, path
    assert send("GET", "/api/v1/whoami").json == {
        "name": "anna", "roles": {"": "viewer"}, "has_token": True,
    }  # fmt: skip


def test_an_editor_changes_experiments_and_an_admin_all(as_user, stops):
    editor, admin = as_user("ed", everywhere="editor"), as_user("ada", everywhere="admin")
    assert editor("POST", "/api/v1/experiments/1/pause", body={}).status == 200
    assert editor("POST", "/api/v1/experiments", body={"config_text": "name: a"}).status == 201
    for path in ("/master/stop", "/nodes/b/drain", "/master/sign-out-all", "/runs/folders"):
        assert editor("POST", f"{responses.PREFIX}{path}", body={}).status == 403, path
    own = "/api/v1/users/ed/roles"
    assert editor("PUT", own, body={"role": "admin"}).status == 403
    assert stops == []

    assert admin("PUT", own, body={"role": "viewer"}).status == 200
    assert editor("POST", "/api/v1/experiments/1/pause", body={}).status == 403
    assert admin("DELETE", own).json["roles"] == {}
    assert editor("GET", "/api/v1/experiments/1").status == 403
    assert admin("POST", "/api/v1/master/stop", body={}).status == 202


def test_a_role_over_a_project_ends_where_the_project_does(as_user, speech):
    send = as_user("anna", speech="editor")
    for path in (
        "/experiments/2",
        "/trials/3",
        "/trials?experiment_id=2",
        "/audit?experiment_id=2",
    ):
        assert send("GET", f"{responses.PREFIX}{path}").status == 200, path
    assert [each["id"] for each in send("GET", "/api/v1/experiments").json] == [2]
    assert [each["id"] for each in send("GET", "/api/v1/experiments?summary=true").json] == [2]
    assert send("GET", "/api/v1/experiments?project=default").json == []
    assert send("POST", "/api/v1/experiments/2/pause", body={}).status == 200
    for method, path in (
        ("GET", "/experiments/1"), ("GET", "/trials/1"), ("GET", f"/checkpoints/{UUID}"),
        ("GET", f"/checkpoints/{UUID[:8]}"), ("GET", "/trials"), ("GET", "/checkpoints"),
        ("GET", "/trials?experiment_id=1"), ("GET", "/trials?experiment_id=2&experiment_id=1"),
        ("GET", "/trials?experiment_id=+1"), ("GET", "/trials?experiment_id=%C2%B2"),
        ("GET", "/checkpoints?experiment_id=2&trial_id=1"), ("GET", "/events?trial_id=1"),
        ("GET", "/experiments/9"), ("GET", "/experiments/2%0A"), ("GET", "/experiments/02.0"),
        ("GET", "/runs"), ("GET", "/audit"), ("GET", "/users"), ("GET", "/audit?experiment_id=1"),
        ("POST", "/experiments/1/pause"), ("POST", "/trials/1/kill"), ("POST", "/tensorboard"),
        ("DELETE", f"/checkpoints/{UUID}"), ("GET", "/checkpoints/orphans"),
    ):  # fmt: skip
        answer = send(method, f"{responses.PREFIX}{path}", body=None if method == "GET" else {})
        assert answer.status == 403, (path, answer.text)
        assert "editor of project 'speech'" in answer.text


def test_events_tell_of_what_one_may_read(as_user, app, home, store, speech, url):
    app.state.parts.roles.grant("anna", team.Role.VIEWER, "speech")
    connected = address.Address(url, home.user_tokens.load("anna"))
    parts = app.state.parts
    assert parts.roles.may_read("anna", 2)
    assert not parts.roles.may_read("anna", 1)
    with store.transaction() as session:
        for number in (1, 2):
            session.update_experiment(session.get_experiment(number))
    with store.reading() as session:
        newest = session.get_change_bounds()[1]
    batch = parts.feed.read(newest - 2)
    assert batch.encode(1, None, lambda number: parts.roles.may_read("anna", number)) is None
    assert batch.encode(None, None, lambda number: parts.roles.may_read("anna", number)) == (
        batch.encode(2, None)
    )
    with master_client.MasterClient(
        connection.Connection(connected, retries=connection.Retries(0.0))
    ) as client:
        assert [each.id for each in client.list_experiments()] == [2]


def test_members_of_a_project_see_slots_of_others_in_use_and_no_numbers(
    as_user, master, store, speech
):
    """Experiment 1 with trial 1 is another project's, and holds slot 0."""
    with store.transaction() as session:
        session.save_launch(launch.Launch("a", 1, 1, (0,), launch.LaunchState.RUNNING, None, 10.0))
    active = node.NodeState.ACTIVE
    master.list_nodes = lambda: [node.NodeStatus("b", active, num_held=2, trials=(1, 3))]
    member, viewer = as_user("anna", speech="editor"), as_user("vera", everywhere="viewer")
    slot = {"id": 0, "kind": "cpu", "device": "", "num_threads": 2, "node": ""}
    hidden = [{**slot, "trial_id": 0, "experiment_id": 0}]
    found = {}
    for path, methods in path_rules.TABLE.items():
        if "GET" in methods and methods["GET"].is_any and path != "/events":
            answer = member("GET", fill(path, name="0" * 64))
            assert answer.status == 200, path
            found[path] = answer.json
    assert found.pop("/slots") == hidden
    status, summary = found.pop("/master/status"), found.pop("/master/summary")
    assert (status["slots"], status["experiments"], summary["experiments"]) == (hidden, [], [])
    assert summary["num_busy_slots"] == 1
    assert found.pop("/timeline")["spans"] == [[0, 0, 0, 10.0, None]]
    (machine,) = found.pop("/nodes")
    assert (machine["trials"], machine["num_held"]) == ([3], 2)
    assert [each["id"] for each in found.pop("/experiments")] == [2]
    # These say nothing of experiments.
    assert found.keys() == {"/master", "/openapi.json", "/uploads/{name}", "/views", "/whoami"}
    following = member("GET", "/api/v1/experiments/2/following").json
    assert following["master"]["experiments"] == []

    assert viewer("GET", "/api/v1/slots").json[0]["trial_id"] == 1
    assert viewer("GET", "/api/v1/timeline").json["spans"] == [[0, 1, 1, 10.0, None]]


def test_members_of_a_project_hear_why_runs_are_not_for_them(as_user, speech):
    answer = as_user("anna", speech="viewer")("GET", "/api/v1/runs")
    assert "this is for viewers of all projects, as runs of `quintain train` are in" in answer.text


def test_admins_are_of_all_projects_and_names_are_checked(over_http):
    with pytest.raises(errors.ConfigError, match="an admin is one of all"):
        over_http.grant_role("anna", team.Role.ADMIN, project="speech")
    for name in ("owner", "Owner", "a b", "ä", "a\nb", "x" * 65, "a~b"):
        with pytest.raises(errors.ConfigError, match=r"name: got .*expected at most 64 letters"):
            over_http.grant_role(name, team.Role.VIEWER)
    with pytest.raises(errors.ConfigError, match="expected at most 128 printable"):
        over_http.grant_role("anna", team.Role.VIEWER, project="a\x1b[2J")
    with pytest.raises(errors.NotFoundError, match="'anna' has no role"):
        over_http.revoke_roles("anna")
    assert [each.name for each in over_http.list_users()] == ["owner"]


def test_roles_are_kept_and_taken_one_by_one(over_http, store, home):
    over_http.grant_role("anna", team.Role.VIEWER)
    over_http.grant_role("anna", team.Role.EDITOR, project="speech")
    home.user_tokens.load("bob")
    again = roles_lib.Roles(store, over_http, home.user_tokens)
    assert again.list_users() == over_http.list_users()
    anna = over_http.list_users()[1]
    assert anna == team.User(
        "anna", {"": team.Role.VIEWER, "speech": team.Role.EDITOR}, has_token=False
    )
    assert over_http.list_users()[2] == team.User("bob", {}, has_token=True)

    assert over_http.revoke_roles("anna", project="speech").roles == {"": team.Role.VIEWER}
    assert over_http.revoke_roles("anna").roles == {}
