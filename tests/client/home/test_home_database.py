import os
import stat

import pytest

from quintain import errors
from quintain.client.home import home as home_lib
from quintain.client.home import home_database

URL = "postgresql+psycopg://me:secret@db.example/trials"


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch):
    monkeypatch.delenv(home_database.VARIABLE, raising=False)


def test_a_home_has_its_file_or_what_its_last_master_had_or_what_the_variable_names(
    tmp_path, monkeypatch
):
    home = home_lib.Home(tmp_path)
    assert home.database == tmp_path / "quintain.db"
    assert not home_database.exists(tmp_path)
    home_database.bind(tmp_path, URL)
    assert home.database == URL
    assert home_database.exists(tmp_path)
    assert stat.S_IMODE((tmp_path / home_database.FILE_NAME).stat().st_mode) == 0o600
    monkeypatch.setenv(home_database.VARIABLE, str(tmp_path / "a ü.db"))
    assert home.database == tmp_path / "a ü.db"
    monkeypatch.setenv(home_database.VARIABLE, "")
    home_database.bind(tmp_path, tmp_path / "quintain.db")
    assert home.database == tmp_path / "quintain.db"


def test_a_note_that_was_damaged_says_what_to_do(tmp_path):
    (tmp_path / home_database.FILE_NAME).write_text("{")

    with pytest.raises(errors.ConfigError, match=r"database\.json.*QUINTAIN_DATABASE"):
        home_database.find(tmp_path)


def test_passwords_are_for_no_argument_and_no_message():
    with pytest.raises(errors.ConfigError, match=r"list of processes.*pgpass") as raised:
        home_database.parse_argument("--database", URL)
    assert "secret" not in str(raised.value)
    assert home_database.parse_argument("--database", "sub/x.db").is_absolute()
    for text in (URL, f"{URL}?password=secret", URL.replace("secret", "se%40cret")):
        assert "cret" not in home_database.describe(text)
        with pytest.raises(errors.ConfigError, match="list of processes"):
            home_database.parse_argument("TO", text)


@pytest.mark.parametrize(
    ("known", "is_meant"),
    [
        (URL, True),
        ("postgres://me:secret@DB.example:5432/trials?sslmode=require", True),
        (URL.replace("me:", "other:"), False),
        (URL.replace("trials", "others"), False),
        (f"{URL}?options=-csearch_path%3Dmine", False),
        ("/a/file.db", False),
        ("", False),
    ],
)
def test_an_argument_means_what_the_variable_names_with_its_password(known, is_meant, monkeypatch):
    monkeypatch.setenv(home_database.VARIABLE, known)
    plain = URL.replace(":secret", "")

    assert home_database.parse_argument("TO", plain) == (known if is_meant else plain)
    with_setting = f"{plain}?sslmode=disable"
    assert home_database.parse_argument("TO", with_setting) == with_setting


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        ("postgres://other@DB.example:5432/trials?sslmode=require", True),
        ("postgresql://db.example/trials", True),
        ("postgresql:///trials?host=db.example", True),
        ("postgresql://db.example:5433/trials", False),
        ("postgresql://db.example/others", False),
        ("postgresql://db.example/trials?options=-csearch_path%3Dmine", False),
    ],
)
def test_the_same_database_is_known_by_any_of_its_names(other, is_same):
    assert home_database.are_same(URL, other) is is_same


def test_what_opens_a_database_is_not_handed_on(monkeypatch):
    monkeypatch.setenv(home_database.VARIABLE, URL)
    monkeypatch.setenv("PGPASSWORD", "secret")

    with home_database.hidden_from_children(URL):
        assert "secret" not in str(dict(os.environ))

    assert os.environ[home_database.VARIABLE] == URL
    assert os.environ["PGPASSWORD"] == "secret"


@pytest.mark.parametrize(
    ("given", "noted", "left"),
    [
        (URL, None, {"A": "b"}),
        ("", URL, {"A": "b"}),
        ("", None, {"A": "b", "PGPASSWORD": "secret"}),
        ("/a/file.db", URL, {"A": "b", "PGPASSWORD": "secret"}),
        ("mysql://me:secret@host", None, {"A": "b"}),
    ],
)
def test_what_opens_a_database_is_no_concern_of_users_code(tmp_path, given, noted, left):
    if noted:
        home_database.bind(tmp_path, noted)
    environment = {"A": "b", "PGPASSWORD": "secret", "QUINTAIN_DATABASE": given}

    home_database.hide(environment, tmp_path)

    assert environment == left
