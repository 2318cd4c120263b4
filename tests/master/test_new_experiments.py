import pytest

from quintain import errors

SINGLE = {"name": "single", "max_length": 10}


def test_nothing_is_created_whose_checkpoints_can_not_be_written(
    make_master, config_text, store, block_packages
):
    block_packages("adlfs")
    master = make_master()
    storage = {"type": "azure", "container": "runs"}

    with pytest.raises(errors.ConfigError, match=r'abfs://runs: .*pip install "quintain\[azure\]"'):
        master.commands.create_experiment(config_text(SINGLE, checkpoint_storage=storage), None)

    with store.reading() as session:
        assert session.list_experiments(include_archived=True) == []


def test_a_large_cluster_holds_few_trials_ready_beyond_those_of_its_slots(
    make_master, config_text, store
):
    master = make_master(num_slots=1200)
    search = {"name": "random", "max_length": 10, "max_trials": 3000}

    number = master.commands.create_experiment(config_text(search), None).id

    with store.reading() as session:
        assert len(session.list_trials(number)) == 1200 + 1024


def test_a_new_search_says_in_its_log_that_finalists_are_trained_again(
    make_master, config_text, store
):
    search = {"name": "random", "max_length": 10, "max_trials": 18}

    record = make_master().commands.create_experiment(config_text(search), None)

    assert record.config["searcher"]["replicate"] == {"top": 3, "seeds": 2, "paired": True}
    with store.reading() as session:
        first = session.list_trials(record.id)[0]
        texts = [row.text for row in session.list_logs(first.id)]
    assert texts == [
        "Of this search, up to 6 trainings repeat the 3 best trials with 2 further seeds. "
        "searcher.replicate says how many; 'none' is off."
    ]
