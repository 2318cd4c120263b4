import json

import pytest

from quintain import errors

TPE = {"name": "tpe", "max_length": 6, "max_trials": 4, "max_concurrent_trials": 2}
WIDE = {
    "lr": {"type": "log", "base": 10, "minval": -5, "maxval": 0},
    "units": {"type": "int", "minval": 1, "maxval": 64},
}


@pytest.fixture
def master(make_master, make_workers, config_text):
    """A master with experiment 1, whose five trials have ended."""
    master = make_master(num_slots=3)
    create(master, config_text, {"name": "random", "max_length": 6, "max_trials": 5})
    make_workers(master).run()
    return master


def create(master, config_text, searcher, **fields):
    return master.commands.create_experiment(config_text(searcher, **fields), None).id


def read_start(store, experiment_id):
    with store.reading() as session:
        return session.list_events(experiment_id)[0]


def test_a_search_learns_from_ended_trials_of_other_experiments(
    make_master, make_workers, config_text, store, master
):
    second = create(master, config_text, {**TPE, "learn_from": [1]}, hyperparameters=WIDE)
    start = read_start(store, second)
    with store.reading() as session:
        known = session.list_trials(1)
        (note,) = [row.text for row in session.list_logs(session.list_trials(second)[0].id)]

    assert [each["name"] for each in start["history"]] == [f"known-{one.id}" for one in known]
    assert [each["results"][-1] for each in start["history"]] == [
        [6, one.best_metric] for one in known
    ]
    assert note == "The search learns from 5 earlier trials."
    make_workers(make_master(num_slots=3)).run()
    with store.reading() as session:
        assert session.get_experiment(second).state == "COMPLETED"
        assert len(session.list_trials(second)) == 4


def test_trials_are_learned_from_once(config_text, store, master):
    second = create(master, config_text, {**TPE, "learn_from": [1, 1]})

    assert len(read_start(store, second)["history"]) == 5


def test_a_running_experiment_gives_what_has_ended_so_far(
    make_master, make_workers, config_text, fake_launcher, store
):
    master = make_master(num_slots=1)
    create(master, config_text, {"name": "random", "max_length": 6, "max_trials": 5})
    with pytest.raises(errors.ConfigError, match="no trial of these experiments has ended"):
        create(master, config_text, {**TPE, "learn_from": [1]})
    workers = make_workers(master)
    master.tick()
    (launch_id,) = fake_launcher.alive
    while launch_id in fake_launcher.alive:
        workers.step(launch_id)
    second = create(master, config_text, {**TPE, "learn_from": [1]})

    assert len(read_start(store, second)["history"]) == 1


@pytest.mark.parametrize(
    ("searcher", "fields", "message"),
    [
        ({"learn_from": [9]}, {}, r"searcher.learn_from\[0\]: there is no experiment 9"),
        (
            {"learn_from": [1], "metric": "accuracy"},
            {},
            "experiment 1 has searcher.metric='loss', expected 'accuracy' as here",
        ),
        (
            {"learn_from": [1]},
            {"hyperparameters": {**WIDE, "units": {"type": "int", "minval": 100, "maxval": 200}}},
            "trial 1 of experiment 1 does not fit: hyperparameters.units: got [0-9]+, expected",
        ),
    ],
)
def test_what_can_not_be_learned_from_is_refused(config_text, master, searcher, fields, message):
    with pytest.raises(errors.ConfigError, match=message):
        create(master, config_text, {**TPE, **searcher}, **fields)


def test_misfits_are_left_out_on_request_and_counted(config_text, store, master):
    with store.reading() as session:
        units = sorted(one.hparams["units"] for one in session.list_trials(1))
    space = {**WIDE, "units": {"type": "int", "minval": units[1], "maxval": 64}}
    searcher = {**TPE, "learn_from": [1], "skip_misfits": True}
    second = create(master, config_text, searcher, hyperparameters=space)

    start = read_start(store, second)
    assert len(start["history"]) == 4
    assert start["note"].endswith("earlier trials; 1 outside its space are left out.")
    assert json.dumps(start)
