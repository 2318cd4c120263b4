import pytest

from quintain import errors
from quintain.client.home import home as home_lib

ODD_NAMES = [
    "", "owner", "Owner", ".", "..", "../agent", "a/b", "a b", "-a", "a\n", "ä", "a\0b", "a" * 65,
    "a~b",
]  # fmt: skip


@pytest.fixture
def home(tmp_path):
    home = home_lib.Home(tmp_path / "home")
    home.create()
    return home


def test_each_user_has_a_token_of_their_own(home):
    tokens = home.user_tokens
    owner, anna, bob = (tokens.load(name) for name in ("owner", "anna", "b.o-b@x.org"))

    assert [tokens.find_user(token) for token in (owner, anna, bob)] == [
        "owner", "anna", "b.o-b@x.org",
    ]  # fmt: skip
    assert tokens.load("anna") == anna
    assert tokens.list_names() == ["owner", "anna", "b.o-b@x.org"]
    assert tokens.get_path("anna").stat().st_mode & 0o777 == 0o600
    assert tokens.get_path("anna").parent.stat().st_mode & 0o777 == 0o700


def test_a_token_that_was_renewed_or_revoked_is_nobodys(home):
    tokens = home.user_tokens
    former = tokens.load("anna")
    renewed = tokens.load("anna", is_new=True)
    assert [tokens.find_user(token) for token in (former, renewed)] == [None, "anna"]

    tokens.revoke("anna")

    assert tokens.find_user(renewed) is None
    with pytest.raises(errors.NotFoundError, match="no token of user 'anna'; expected one of none"):
        tokens.revoke("anna")


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_that_is_no_name_has_no_token(home, name):
    tokens = home.user_tokens
    if name != "owner":
        with pytest.raises(errors.ConfigError, match="expected at most 64 letters"):
            tokens.load(name)
    assert tokens.find_user(f"{name}-{'x' * 43}") is None


def test_a_token_does_not_open_the_file_of_another_kind(home):
    """The name in a token is a path's part only if it is a name."""
    (home.path / "users").mkdir()
    (home.path / "agent.token").write_text("../agent-" + "x" * 43)
    assert home.user_tokens.find_user("../agent-" + "x" * 43) is None
