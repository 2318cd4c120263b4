import collections

import pytest

from quintain.master.machine import experiment_machine
from quintain.records.config import experiment_spec
from quintain.records.rows import experiment, states, trial
from quintain.server import search_view

SPACE = {"lr": {"type": "double", "minval": 0, "maxval": 1}}


class Play:
    """Plays an experiment by its machine, and stores what a master would."""

    def __init__(self, store, searcher):
        self.store = store
        plain = {
            "name": "played",
            "entrypoint": "model_def:T",
            "hyperparameters": SPACE,
            "searcher": {"metric": "accuracy", "smaller_is_better": False, **searcher},
            "reproducibility": {"experiment_seed": 3},
            "scheduling_unit": 1000,
        }
        config = experiment_spec.parse(plain)
        self.machine = experiment_machine.ExperimentMachine(config)
        with store.transaction() as session:
            added = session.add_experiment(
                experiment.Experiment(
                    0, states.ExperimentState.ACTIVE, config.as_dict(), "", "/code"
                )
            )
        self.id = added.id
        self.ids = {}
        self._numbers = collections.Counter()
        self.apply({"kind": "start", "config": config.as_dict()})

    def apply(self, event):
        event = {"time": 1.0, **event}
        effects = self.machine.apply(event)
        with self.store.transaction() as session:
            session.add_event(self.id, event)
            for request_id in effects.created:
                machine = self.machine.trials[request_id]
                parent = self.ids.get(machine.parent)
                record = trial.TrialRecord(
                    0, self.id, request_id, machine.state, {}, 1, parent_trial_id=parent
                )
                self.ids[request_id] = session.add_trial(record).id
            for request_id in effects.ended:
                former = session.get_trial(self.ids[request_id])
                ended = {**vars(former), "state": self.machine.trials[request_id].state}
                session.update_trial(trial.TrialRecord(**ended))

    def work(self, most=10_000):
        """Does the work that trials ask for, at most so many workloads; metrics fall with ids."""
        done = 0
        while done < most:
            ready = [name for name, one in self.machine.trials.items() if one.next_step()]
            if not ready:
                return
            request_id = ready[0]
            step = self.machine.trials[request_id].next_step()
            self._numbers[request_id] += 1
            self.apply(
                {
                    "kind": "result",
                    "request_id": request_id,
                    "number": self._numbers[request_id],
                    "work": step.kind.value,
                    "num_batches": step.num_batches,
                    "metric": 1 - self.ids[request_id] / 100,
                    "checkpoint": f"{request_id}-{self._numbers[request_id]}",
                }
            )
            done += 1

    def show(self, views):
        with self.store.reading() as session:
            return views.build(session, self.id)


def count(rung):
    return dict(collections.Counter(state for _, _, state in rung["trials"]))


ASHA = {"name": "async_halving", "num_rungs": 2, "max_length": {"batches": 80}, "max_trials": 8}


@pytest.mark.parametrize("stop_once", [False, True])
def test_the_rungs_of_a_search_have_its_trials_with_their_metrics(store, stop_once):
    play = Play(store, {**ASHA, "stop_once": stop_once})
    views = search_view.SearchViews()
    play.work()

    found = play.show(views)

    assert (found["kind"], found["lineage"]) == ("async_halving", [])
    (bracket,) = found["brackets"]
    first, last = bracket["rungs"]
    assert (first["batches"], last["batches"]) == (20, 80)
    assert len(first["trials"]) == 8
    assert sum(count(first).values()) == 8
    assert set(count(first)) == {"promoted", "stopped"}
    assert set(count(last)) == {"done"}
    assert count(first)["promoted"] == count(last)["done"]
    # The best comes first, as it was measured: larger is better here.
    trial_id, measured, _ = first["trials"][0]
    assert measured == 1 - trial_id / 100 == max(one[1] for one in first["trials"])


def test_what_is_kept_of_a_search_goes_on_with_its_events(store):
    play = Play(store, ASHA)
    views = search_view.SearchViews()
    play.work(most=4)
    before = play.show(views)
    play.work()

    assert play.show(views) == play.show(search_view.SearchViews()) != before
    assert set(count(before["brackets"][0]["rungs"][0])) == {"waiting", "running"}


def test_brackets_are_apart(store):
    play = Play(
        store,
        {"name": "adaptive_asha", "max_length": {"batches": 64}, "max_trials": 12, "max_rungs": 3},
    )
    play.work()

    found = play.show(search_view.SearchViews())

    assert [len(bracket["rungs"]) for bracket in found["brackets"]] == [2, 1]
    trials = [one[0] for bracket in found["brackets"] for one in bracket["rungs"][0]["trials"]]
    assert sorted(trials) == sorted(play.ids.values())


def test_copies_name_what_they_are_copies_of(store):
    play = Play(
        store,
        {
            "name": "pbt",
            "population_size": 4,
            "num_rounds": 2,
            "length_per_round": {"batches": 10},
            "replace_function": {"truncate_fraction": 0.25},
        },
    )
    play.work()

    found = play.show(search_view.SearchViews())

    assert found["brackets"] == []
    ((child, parent),) = found["lineage"]
    assert child == max(play.ids.values())
    assert parent in play.ids.values()


def test_a_random_search_has_no_rungs(store):
    play = Play(store, {"name": "random", "max_length": {"batches": 10}, "max_trials": 2})

    assert play.show(search_view.SearchViews()) == {
        "kind": "random",
        "brackets": [],
        "lineage": [],
    }
