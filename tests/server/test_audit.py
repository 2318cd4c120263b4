"""Which calls are in the audit log, and that no secret is."""

import json

from quintain.client import call_table
from quintain.client import calls as calls_lib
from quintain.records import team
from tests.server.conftest import KEY

SECRET = "s3cr3t-of-the-test"


def read(over_http, **which):
    return [
        (each.user_name, each.call, each.experiment_id, each.arguments)
        for each in over_http.get_audit(**which)
    ]


def test_each_change_is_noted_with_who_what_and_which(http, home, over_http):
    anna = f"Bearer {home.user_tokens.load('anna')}"
    over_http.grant_role("anna", team.Role.EDITOR)
    http("POST", "/api/v1/experiments/1/pause", authorization=anna, body={})
    http("PATCH", "/api/v1/experiments/1", body={"labels": ["a"]})
    http("POST", "/api/v1/trials/2/kill", body={})
    http("GET", "/api/v1/experiments/1")

    assert read(over_http) == [
        ("owner", "grant_role", None, {"name": "anna", "role": "editor"}),
        ("anna", "apply", 1, {"experiment_id": 1, "command": "pause"}),
        ("owner", "update_experiment", 1, {"experiment_id": 1, "changes": {"labels": ["a"]}}),
        ("owner", "kill_trial", 1, {"trial_id": 2}),
    ]
    assert read(over_http, user_name="anna") == read(over_http)[1:2]
    assert {each.address for each in over_http.get_audit()} == {"127.0.0.1"}


def test_a_new_experiment_is_named_by_its_own_number(over_http):
    made = over_http.create_experiment("name: a")
    (entry,) = over_http.get_audit()
    assert (entry.call, entry.experiment_id) == ("create_experiment", made.id)


def test_what_was_refused_and_what_processes_do_is_not_noted(http, over_http):
    assert http("POST", "/api/v1/experiments/1/archive", body={}).status == 409
    assert http("POST", "/api/v1/experiments/9/kill", body={}).status == 404
    body = {"reason": "errored"}
    token = f"Bearer {KEY.build_token(1, '1-1')}"
    answer = http("POST", "/api/v1/trials/1/runs/1-1/exit", authorization=token, body=body)
    assert answer.status == 200
    assert read(over_http) == []


def test_configs_and_values_that_may_be_secrets_are_left_out(http, over_http):
    variable = f"environment.environment_variables=[KEY={SECRET}]"
    body = {"config_text": f"name: a\ndescription: {SECRET}", "overrides": [variable]}
    assert http("POST", "/api/v1/experiments", body=body).status == 201
    body = {"overrides": [variable]}
    assert http("POST", "/api/v1/experiments/1/continue", body=body).status == 200

    text = http("GET", "/api/v1/audit").text
    assert SECRET not in text
    assert [each["arguments"]["overrides"] for each in json.loads(text)] == [
        ["environment.environment_variables"]
    ] * 2


def test_each_argument_of_a_change_is_told_unless_its_declaration_calls_it_secret():
    calls = call_table.list_calls(calls_lib.MasterCalls).values()
    given = [each for one in calls if one.method != "GET" for each in one.parameters]
    assert {each.name for each in given if each.is_secret} == {
        "config_text", "origin", "overrides", "receipt",
    }  # fmt: skip
    # Whoever adds one says here that it never holds a secret.
    assert {each.name for each in given if not each.is_secret} == {
        "activate", "alias", "changes", "checkpoint", "command", "drain", "experiment_id", "margin",
        "metric_name", "model_dir", "name", "not_worse_than", "note", "parent_id", "paths",
        "project", "role", "searcher", "source", "space_text", "stays", "to_trial", "trial_id",
        "upload", "uuid", "version", "with_aliases",
    }  # fmt: skip


def test_all_calls_that_change_something_are_declared_with_another_method():
    calls = call_table.list_calls(calls_lib.MasterCalls).values()
    reads = {each.name for each in calls if each.method == "GET"}
    assert {name.partition("_")[0] for name in reads} <= {
        "count",
        "follow",
        "get",
        "list",
        "select",
    }
