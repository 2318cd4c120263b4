from quintain.master.placing import start_pace


def test_so_many_start_at_once_as_can_be_answered():
    pace = start_pace.StartPace(lambda: 0.0)
    assert pace.count_allowed(0) == start_pace.MOST_UNHEARD
    assert pace.count_allowed(start_pace.MOST_UNHEARD - 3) == 3
    assert pace.count_allowed(start_pace.MOST_UNHEARD) == 0


def test_processes_that_take_long_until_they_are_heard_of_hold_up_nobody_for_ever():
    now = 0.0
    pace = start_pace.StartPace(lambda: now)
    unheard = start_pace.MOST_UNHEARD
    for _ in range(100):
        now += 0.5
        allowed = pace.count_allowed(unheard)
        pace.note_started(allowed)
        unheard += allowed
    assert unheard == start_pace.MOST_UNHEARD + 50 * start_pace.STARTS_PER_SEC


def test_a_pause_allows_no_flood():
    now = 0.0
    pace = start_pace.StartPace(lambda: now)
    now = 3600.0
    assert pace.count_allowed(start_pace.MOST_UNHEARD) == start_pace.STARTS_PER_SEC


def test_trials_start_no_faster_than_their_processes_are_heard_of(
    make_master, make_workers, fake_launcher, config_text, monkeypatch
):
    monkeypatch.setattr(start_pace, "MOST_UNHEARD", 2)
    monkeypatch.setattr(start_pace, "STARTS_PER_SEC", 0.0)
    fake_launcher.join("a", "b", num_slots=3)
    master = make_master(num_slots=0)
    search = {"name": "random", "max_trials": 9, "max_length": {"batches": 8}}
    master.commands.create_experiment(config_text(search), None)
    workers = make_workers(master)

    for _ in range(3):
        master.tick()
    first = set(fake_launcher.alive)
    assert len(first) == 2

    workers.step(min(first))
    master.tick()
    assert len(fake_launcher.alive) == 3
    fake_launcher.end(max(first), signal=9)
    master.tick()
    master.tick()
    assert len(fake_launcher.alive) == 3

    workers.run()
    assert len({work.trial_id for work in workers.done}) == 9


def test_a_next_master_counts_those_that_the_former_one_has_not_heard_of(
    make_master, fake_launcher, config_text, monkeypatch
):
    monkeypatch.setattr(start_pace, "MOST_UNHEARD", 2)
    monkeypatch.setattr(start_pace, "STARTS_PER_SEC", 0.0)
    fake_launcher.join("a", num_slots=4)
    search = {"name": "random", "max_trials": 4, "max_length": {"batches": 8}}
    former = make_master(num_slots=0)
    former.commands.create_experiment(config_text(search), None)
    former.tick()

    master = make_master(num_slots=0)
    master.tick()
    assert len(fake_launcher.alive) == 2
