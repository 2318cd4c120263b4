"""Commands of one home directory that ask the master of another one over TLS."""

import json
import pathlib

import pytest

from quintain.cli import main
from quintain.client.home import home as home_lib
from quintain.client.home import logins, token_files
from quintain.master.placing import slots
from quintain.server import daemon
from quintain.server.http import network as network_lib
from quintain.testing import idle_launcher


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Returns a master that speaks TLS."""
    home = home_lib.Home(tmp_path_factory.mktemp("there") / "home")
    with daemon.MasterServer(
        home,
        slots=[slots.Slot(0)],
        launcher=idle_launcher.IdleLauncher(),
        settings=daemon.ServerSettings(network=network_lib.Network(use_tls=True)),
    ) as server:
        yield server


@pytest.fixture
def there(server, monkeypatch, tmp_path):
    """Returns a file with a token, which the owner of the master has written."""
    monkeypatch.setenv("QUINTAIN_HOME", str(server.file.address.url[5:].rpartition("/")[0]))
    path = tmp_path / "user.token"
    assert main.run(["master", "token", "--user", "--output", str(path)]) == 0
    monkeypatch.setenv("QUINTAIN_HOME", str(tmp_path / "here"))
    return path


def test_all_commands_ask_the_master_that_one_is_logged_in_to(quintain, server, there):
    assert there.stat().st_mode & 0o777 == 0o600
    code, _, stderr = quintain("login", server.url, "--token-file", there)
    assert code == 1
    assert "no authority" in stderr
    assert f"add --fingerprint {server.fingerprint}" in stderr

    shown = ":".join(server.fingerprint.upper()[i : i + 2] for i in range(0, 64, 2))
    code, _, stderr = quintain(
        "login", server.url, "--token-file", there, "--fingerprint", f"SHA256:{shown}"
    )
    assert code == 0, stderr
    assert home_lib.find_home().path.joinpath("login.json").stat().st_mode & 0o777 == 0o600
    code, stdout, _ = quintain("master", "status", "--json")
    assert json.loads(stdout)["master"]["fingerprint"] == server.fingerprint
    assert there.read_text().strip() not in stdout
    assert quintain("experiment", "list") == (0, "", "There are no experiments.\n")
    code, stdout, _ = quintain("ui", "--no-browser")
    assert stdout.startswith(f"{server.url}/")
    for command in (("master", "start"), ("master", "token", "--agent")):
        code, _, stderr = quintain(*command)
        assert code == 2
        assert f"commands here ask {server.url}" in stderr

    assert quintain("logout")[0] == 0
    assert quintain("master", "status")[0] == 1
    assert "not logged in" in quintain("logout")[2]


def test_a_token_of_nobody_and_those_of_agents_and_metrics_are_refused_with_what_to_give(
    quintain, server, there, tmp_path
):
    (tmp_path / "wrong").write_text("user-" + 44 * "x")
    own = home_lib.Home(pathlib.Path(server.file.address.url[5:]).parent)
    token_files.write(tmp_path / "agents", token_files.load(own.agent_token))
    token_files.write(tmp_path / "metrics", token_files.load(own.metrics_token))
    for name in ("wrong", "agents", "metrics"):
        code, _, stderr = quintain(
            *("login", server.url, "--token-file", tmp_path / name),
            *("--fingerprint", server.fingerprint),
        )
        assert code == 2
        assert "holds as the token of its users; `quintain master token --user`" in stderr
    assert not home_lib.find_home().path.joinpath("login.json").exists()


def test_variables_do_it_for_a_shell(quintain, server, there, monkeypatch):
    monkeypatch.setenv(logins.URL_VARIABLE, server.url)
    assert logins.TOKEN_VARIABLE in quintain("experiment", "list")[2]
    monkeypatch.setenv(logins.TOKEN_VARIABLE, str(there))
    monkeypatch.setenv(logins.FINGERPRINT_VARIABLE, server.fingerprint)
    assert quintain("experiment", "list") == (0, "", "There are no experiments.\n")
    code, _, stderr = quintain("master", "start")
    assert (code, f"unset {logins.URL_VARIABLE}" in stderr) == (2, True)

    monkeypatch.delenv(logins.URL_VARIABLE)
    assert "without QUINTAIN_MASTER_URL" in quintain("experiment", "list")[2]


def test_a_token_that_was_renewed_opens_nothing_any_more(quintain, server, there, monkeypatch):
    given = ("--token-file", there, "--fingerprint", server.fingerprint)
    assert quintain("login", server.url, *given)[0] == 0
    own = str(server.file.address.url[5:].rpartition("/")[0])
    with monkeypatch.context() as patched:
        patched.setenv("QUINTAIN_HOME", own)
        former = there.read_text().strip()
        code, stdout, _ = quintain("master", "token", "--user", "--renew")
        assert code == 0
        assert stdout.strip() != former
        assert quintain("master", "token", "--user")[1] == stdout
        assert quintain("master", "token", "--agent")[1].startswith("agent-")
        assert quintain("master", "token", "--metrics")[1].startswith("metrics-")
    for command in (("experiment", "list"), ("experiment", "pause", "1"), ("node", "list")):
        code, _, stderr = quintain(*command)
        assert code == 2
        place = home_lib.find_home().path / logins.FILE_NAME
        assert f"{place}: {server.url} does not take the token" in stderr
        assert "`quintain login` takes what `quintain master token --user`" in stderr


def test_plain_text_asked_by_tls_and_the_other_way_round_is_said_in_words(
    quintain, server, there, tmp_path
):
    plain = server.url.replace("https", "http")
    code, _, stderr = quintain("login", plain, "--token-file", there, "--insecure")
    assert (code, "Remote end closed connection" in stderr) == (1, True)
    assert "if it speaks TLS, its address begins with https://" in stderr
    assert "('" not in stderr

    with daemon.MasterServer(
        home_lib.Home(tmp_path / "plain"),
        slots=[slots.Slot(0)],
        launcher=idle_launcher.IdleLauncher(),
    ) as other:
        url = other.url.replace("http", "https")
        code, _, stderr = quintain("login", url, "--token-file", there)
    assert (code, "it answers in plain text" in stderr) == (1, True)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://trainer.example.org:80", "sent as plain text"),
        ("http://127.0.0.1:8080", "sent as plain text"),
        ("trainer:8443", "URL: got 'trainer:8443', expected the address"),
        ("https://me:secret@trainer", "a token is given as a file"),
        ("https://trainer:99999", "Port out of range"),
        ("https://trainer/\n", "no authority"),
        ("https://trai ner", "expected the address"),
        ("ftp://trainer", "expected the address"),
    ],
)
def test_addresses_that_are_none_are_refused(quintain, there, url, words):
    code, _, stderr = quintain("login", url, "--token-file", there)
    assert code != 0
    assert "secret" not in stderr
    assert words in stderr or "No master answers at https://trainer" in stderr


def test_where_a_master_runs_nobody_logs_in_to_another_one(quintain, server, there, monkeypatch):
    monkeypatch.setenv("QUINTAIN_HOME", str(server.file.address.url[5:].rpartition("/")[0]))
    given = ("--token-file", there, "--fingerprint", server.fingerprint)
    code, _, stderr = quintain("login", server.url, *given)
    assert (code, "A master runs for" in stderr) == (1, True)


CONFIG = """
name: digits
entrypoint: model_def:Digits
searcher: {name: single, metric: accuracy, max_length: {batches: 100}}
"""


def test_the_code_of_an_experiment_goes_with_it(quintain, server, there, tmp_path):
    given = ("--token-file", there, "--fingerprint", server.fingerprint)
    assert quintain("login", server.url, *given)[0] == 0
    code = tmp_path / "code"
    (code / "data").mkdir(parents=True)
    (code / "model_def.py").write_text("class Digits: ...\n")
    (code / "data" / "large.bin").write_bytes(bytes(range(256)) * 20_000)
    (code / "left_out.txt").write_text("secret")
    (code / ".quintainignore").write_text("left_out.txt\n")
    (tmp_path / "search.yaml").write_text(CONFIG)

    code, stdout, stderr = quintain(
        "experiment", "create", tmp_path / "search.yaml", code, "--paused", "--no-check", "--json"
    )
    assert code == 0, stderr
    made = json.loads(stdout)
    copy = server.calls.find_model_dir(made["id"])
    names = sorted(path.relative_to(copy).as_posix() for path in copy.rglob("*.*"))
    assert names == [".quintainignore", "data/large.bin", "model_def.py"]
    assert (copy / "data" / "large.bin").stat().st_size == 5_120_000
    assert str(tmp_path) not in json.dumps(made)


def test_a_name_that_the_master_does_not_know_as_its_own_is_named_and_no_token_blamed(
    quintain, server, there
):
    port = server.url.rpartition(":")[2]
    url = f"https://127.1:{port}"  # Resolves to the address of the master, as other names may.
    code, _, stderr = quintain(
        "login", url, "--token-file", there, "--fingerprint", server.fingerprint
    )
    assert code != 0
    assert f"Host: got '127.1:{port}', which is not this server" in stderr
    assert "--allowed-host" in stderr
    assert "--token-file" not in stderr
