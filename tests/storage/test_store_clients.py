"""How clients are made; nobody is asked."""

import json

import pytest

from quintain import errors
from quintain.storage import remote_systems

KEY = "Z2VoZWlt"
OWN = {
    "AZURE_STORAGE_ACCOUNT_NAME": "mine",
    "AZURE_STORAGE_ACCOUNT_KEY": KEY,
    "AZURE_STORAGE_SAS_TOKEN": None,
    "AZURE_STORAGE_CONNECTION_STRING": None,
}


def set_variables(monkeypatch, variables):
    for name, value in variables.items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("account_url", "endpoint", "name"),
    [
        ("https://you.blob.core.windows.net/", "https://you.blob.core.windows.net", "you"),
        ("https://you.blob.core.chinacloudapi.cn", "https://you.blob.core.chinacloudapi.cn", "you"),
        ("http://127.0.0.1:10000/you", "http://127.0.0.1:10000/you", "you"),
        ("https://azurite:10000/you", "https://azurite:10000/you", "you"),
        ("https://files.example.org:8443", "https://files.example.org:8443", "mine"),
    ],
)
def test_address_of_an_account_is_taken_whole(monkeypatch, account_url, endpoint, name):
    pytest.importorskip("adlfs")
    set_variables(monkeypatch, OWN)

    system, path = remote_systems.open_system("abfs://runs/a", {"account_url": account_url})

    assert path == "runs/a"
    assert system.service_client.primary_endpoint.rstrip("/") == endpoint
    assert system.service_client.account_name == name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"of which account is not known: give account_url, or set AZURE_STORAGE_ACCOUNT_NAME"),
        (
            {"account_url": "http://127.0.0.1:10000/you"},
            r"needs AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN in the environment",
        ),
    ],
)
def test_what_an_account_lacks_is_named(monkeypatch, options, message):
    pytest.importorskip("adlfs")
    set_variables(monkeypatch, dict.fromkeys(OWN))

    with pytest.raises(errors.ConfigError, match=message):
        remote_systems.open_system("abfs://runs/a", options)


def test_account_of_the_environment_is_not_taken_for_another(monkeypatch):
    pytest.importorskip("adlfs")
    variable = f"AccountName=mine;AccountKey={KEY}"
    set_variables(monkeypatch, {**OWN, "AZURE_STORAGE_CONNECTION_STRING": variable})

    with pytest.raises(errors.ConfigError, match=r"https://you.*names 'https://mine\.") as caught:
        remote_systems.open_system(
            "abfs://runs/a", {"account_url": "https://you.blob.core.windows.net"}
        )

    assert KEY not in str(caught.value)


@pytest.mark.parametrize("content", [None, "{", json.dumps({"type": "nothing"})])
def test_key_file_that_can_not_be_used_is_no_reason_to_be_nobody(monkeypatch, tmp_path, content):
    pytest.importorskip("gcsfs")
    path = tmp_path / "key.json"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))

    with pytest.raises(errors.ConfigError, match=r"key\.json.*GOOGLE_APPLICATION_CREDENTIALS"):
        remote_systems.check("gs://runs/a", {}, patience_secs=0.0)


def test_nobody_asks_google(monkeypatch):
    pytest.importorskip("gcsfs")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", "/no/directory")
    monkeypatch.setenv("NO_GCE_CHECK", "true")

    with pytest.raises(errors.ConfigError, match=r"no credentials were found.*service account"):
        remote_systems.check("gs://runs/a", {}, patience_secs=0.0)
