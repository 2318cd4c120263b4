import pytest

from quintain import errors

AUTO = {"name": "auto", "max_length": 6, "max_trials": 18}
BUDGET = {"name": "auto", "max_length": 64, "budget": 400}


def create(master, config_text, searcher):
    return master.commands.create_experiment(config_text(searcher), None)


def read_log(store, experiment_id):
    with store.reading() as session:
        trial = session.list_trials(experiment_id)[0]
        return [row.text for row in session.list_logs(trial.id)]


def test_the_choice_and_its_reason_are_in_the_config_and_the_log(make_master, config_text, store):
    record = create(make_master(num_slots=1), config_text, AUTO)

    chosen = record.config["searcher"]
    assert (chosen["name"], chosen["method"]) == ("auto", "gp")
    assert f"auto chose gp: {chosen['reason']}." in read_log(store, record.id)


@pytest.mark.slow
@pytest.mark.parametrize("searcher", [AUTO, BUDGET])
def test_a_new_master_goes_on_with_the_chosen_method(
    make_master, make_workers, config_text, describe, searcher
):
    master = make_master(num_slots=3)
    undisturbed = create(master, config_text, searcher).id
    make_workers(master).run()
    disturbed = create(master, config_text, searcher).id
    workers = make_workers(master)

    def replace(number):
        workers.master = make_master(num_slots=3)

    workers.run(on_round=replace)
    assert describe(disturbed)["trials"] == describe(undisturbed)["trials"]


@pytest.mark.slow
def test_more_trials_and_a_rewind_keep_the_method_unless_another_is_asked_for(
    make_master, make_workers, config_text, store
):
    master = make_master(num_slots=3)
    first = create(master, config_text, {**AUTO, "max_trials": 6, "replicate": "none"})
    make_workers(master).run()
    extended = master.commands.update_experiment(first.id, {"max_trials": 20})
    make_workers(master).run()
    rewound = master.commands.rewind_experiment(first.id, 5, "", None, ["searcher.max_trials=30"])
    fresh = master.commands.rewind_experiment(first.id, 5, "tpe", None, [])
    again = master.commands.rewind_experiment(fresh.id, 5, "auto", None, [])

    methods = [one.config["searcher"].get("method") for one in (first, extended, rewound, again)]
    assert methods == ["random", "random", "random", "gp"]
    assert "method" not in fresh.config["searcher"]
    with store.reading() as session:
        assert len(session.list_trials(first.id)) == 20


def test_a_search_can_not_go_on_with_another_method(make_master, make_workers, config_text):
    master = make_master(num_slots=3)
    record = create(master, config_text, {**AUTO, "max_trials": 3})
    make_workers(master).run()
    changes = ["searcher.method=tpe", "searcher.max_length=9"]
    with pytest.raises(errors.StateError, match=r"searcher\.method: an experiment can't go on"):
        master.commands.continue_experiment(record.id, changes)
