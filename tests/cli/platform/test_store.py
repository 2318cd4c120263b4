import contextlib

import pytest

from quintain import store as stores
from quintain.cli import main
from quintain.client.home import home as home_lib
from quintain.client.home import home_database, master_lock
from quintain.testing import store_case


@pytest.fixture
def home(tmp_path):
    made = home_lib.Home(tmp_path / "a home ü")
    made.create()
    opening = contextlib.closing(stores.open_store(made.database))
    with opening as store, store.transaction() as session:
        owner = session.add_experiment(store_case.new_experiment()).id
        session.add_trial(store_case.new_trial(owner))
    return made


def count(database):
    with contextlib.closing(stores.open_store(database)) as store, store.reading() as session:
        return len(session.list_trials())


def test_a_home_is_copied_to_a_server_and_back_to_another_home(
    home, postgres_url, tmp_path, capsys
):
    assert main.run(["store", "copy", str(home.path), postgres_url]) == 0
    output = capsys.readouterr()
    assert "1 experiments and 1 trials" in output.out
    assert f"--database {postgres_url}" in output.out
    assert "trials: 1 of 1" in output.err
    other = home_lib.Home(tmp_path / "other")
    other.create()
    assert main.run(["store", "copy", postgres_url, str(other.path)]) == 0
    assert count(other.database) == 1

    home_database.bind(home.path, postgres_url)
    assert main.run(["store", "copy", str(home.path), str(tmp_path / "third.db")]) == 0
    assert count(tmp_path / "third.db") == 1


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ("postgresql://me:secret@host/db", "list of processes"),
        ("{home}/quintain.db", "twice"),
        ("mysql://host/db", "begins with"),
    ],
)
def test_what_can_not_be_copied_says_why(home, goal, message, capsys):
    goal = goal.format(home=home.path)
    assert main.run(["store", "copy", str(home.path), goal]) == 2
    output = capsys.readouterr().err
    assert message in output
    assert "secret" not in output


def test_a_home_with_a_master_and_a_full_target_are_refused(home, tmp_path, capsys):
    with master_lock.hold(home.path):
        assert main.run(["store", "copy", str(home.path), str(tmp_path / "x.db")]) == 1
    assert "a master uses it" in capsys.readouterr().err
    arguments = ["store", "copy", str(home.path), str(tmp_path / "x.db")]
    assert [main.run(arguments), main.run(arguments)] == [0, 1]
    output = capsys.readouterr().err.replace("\n", " ")
    assert "1 trials, " in output
    assert "expected an empty one" in output
    assert main.run(["store", "copy", str(tmp_path / "none.db"), str(tmp_path / "y.db")]) == 1
    assert not (tmp_path / "y.db").exists()


def test_a_source_whose_user_may_only_read_leaves_no_file_behind(
    postgres_server, postgres_url, tmp_path, capsys
):
    postgres_server.run("CREATE ROLE looker LOGIN")
    name = postgres_url.rpartition("/")[2]
    try:
        postgres_server.run("GRANT SELECT ON ALL TABLES IN SCHEMA public TO looker", name)
        source = postgres_url.replace("postgres@", "looker@")
        assert main.run(["store", "copy", source, str(tmp_path / "to.db")]) == 2
        assert "may not read and write the tables" in capsys.readouterr().err
        assert list(tmp_path.iterdir()) == []
    finally:
        postgres_server.run("DROP OWNED BY looker; DROP ROLE looker", name)
