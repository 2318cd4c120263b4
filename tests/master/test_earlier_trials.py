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


def rewind(master, to_trial, searcher="", space=None, overrides=()):
    space_text = None if space is None else json.dumps(space)
    return master.commands.rewind_experiment(1, to_trial, searcher, space_text, overrides)


@pytest.mark.slow
def test_a_rewound_search_shares_trials_and_trains_the_others(
    make_master, make_workers, store, master
):
    child = rewind(master, 3, "tpe", WIDE, ["searcher.max_trials=8"])
    make_workers(make_master(num_slots=3)).run()
    with store.reading() as session:
        parent, trials = session.list_trials(1), session.list_trials(child.id)
        record = session.get_experiment(child.id)

    assert (record.parent_id, record.state) == (1, "COMPLETED")
    assert record.config["searcher"]["inherited"] == [1, 2, 3]
    assert record.config["searcher"]["name"] == "tpe"
    assert len(trials) == 8 - 3
    assert not {one.hparams["lr"] for one in trials} & {one.hparams["lr"] for one in parent}
    assert len(read_start(store, child.id)["history"]) == 3


def test_finalists_of_a_rewound_search_are_settled_for_the_trials_that_are_left(
    make_master, make_workers, config_text, store
):
    master = make_master(num_slots=3)
    create(master, config_text, {"name": "random", "max_length": 6, "max_trials": 16})
    make_workers(master).run()

    def settle(*overrides):
        child = rewind(master, 4, overrides=overrides)
        return child.config["searcher"]["replicate"]["top"]

    with store.reading() as session:
        assert session.get_experiment(1).config["searcher"]["replicate"]["top"] == 2
    assert settle() == 0
    assert settle("searcher.max_trials=20") == 2
    assert settle("searcher.replicate.top=3") == 3


@pytest.mark.slow
def test_a_rewound_search_goes_on_equally_after_its_master_was_replaced(
    make_master, make_workers, describe, master
):
    undisturbed = rewind(master, 4, "tpe", WIDE, ["searcher.max_trials=12"]).id
    make_workers(master).run()
    disturbed = rewind(master, 4, "tpe", WIDE, ["searcher.max_trials=12"]).id
    workers = make_workers(master)

    def replace(number):
        workers.master = make_master(num_slots=3)

    workers.run(on_round=replace)
    assert len(describe(disturbed)["trials"]) == 8
    assert describe(disturbed)["trials"] == describe(undisturbed)["trials"]


def test_a_child_can_be_learned_from_and_rewound_without_counting_trials_twice(
    config_text, make_master, make_workers, store, master
):
    child = rewind(master, 3, overrides=["searcher.max_trials=5"])
    make_workers(make_master(num_slots=3)).run()
    both = create(master, config_text, {**TPE, "learn_from": [1, child.id]})
    grandchild = master.commands.rewind_experiment(child.id, 6, "", None, ["searcher.max_trials=9"])

    assert len(read_start(store, both)["history"]) == 5 + 2
    assert grandchild.config["searcher"]["inherited"] == [1, 2, 3, 6]


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((77,), errors.StateError, "Experiment 1 has no trial 77. It has trials 1 to 5."),
        ((5,), errors.ConfigError, "max_trials: got 5, expected more than the 5 inherited trials"),
        ((2, "tpee"), errors.ConfigError, "searcher.name: got 'tpee', expected one of"),
        ((2, "pbt"), errors.ConfigError, "the search method 'pbt' can't use earlier trials"),
        (
            (2, "", {**WIDE, "units": {"type": "int", "minval": 100, "maxval": 200}}),
            errors.ConfigError,
            "searcher.inherited: trial 1 of experiment 1 does not fit: hyperparameters.units: got ",
        ),
        (
            (2, "", None, ["searcher.metric=accuracy"]),
            errors.ConfigError,
            "experiment 1 has searcher.metric='loss', expected 'accuracy' as here",
        ),
    ],
)
def test_what_can_not_be_rewound_is_refused(master, arguments, kind, message):
    with pytest.raises(kind) as caught:
        rewind(master, *arguments)
    assert message in str(caught.value)


def test_a_search_can_not_be_rewound_to_a_trial_without_result(make_master, config_text):
    master = make_master(num_slots=1)
    create(master, config_text, {"name": "random", "max_length": 6, "max_trials": 5})
    with pytest.raises(errors.StateError, match="Trial 1 is ACTIVE and has no result to share"):
        rewind(master, 1)


def test_an_ended_search_and_its_trials_go_on_together(make_master, make_workers, store, master):
    with pytest.raises(errors.StateError, match="more than the present 5"):
        master.commands.continue_experiment(1, ["searcher.max_trials=3", "searcher.max_length=9"])
    master.commands.continue_experiment(1, ["searcher.max_trials=7", "searcher.max_length=9"])
    make_workers(make_master(num_slots=3)).run()
    with store.reading() as session:
        trials = session.list_trials(1)
        assert session.get_experiment(1).state == "COMPLETED"

    assert [one.total_batches for one in trials] == [9] * 7
