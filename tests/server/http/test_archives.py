import io
import tarfile

import pytest
import urllib3

UUID = "0b1c2d3e-0000-0000-0000-000000000001"
TOKEN = "the-token"


@pytest.fixture
def fetch(url):
    """Returns a function that fetches an archive: its members with their content, and headers."""
    with urllib3.PoolManager(retries=False) as pool:

        def read(path):
            headers = {"Authorization": f"Bearer {TOKEN}"}
            answer = pool.request("GET", f"{url}/api/v1{path}", headers=headers)
            assert answer.status == 200
            with tarfile.open(fileobj=io.BytesIO(answer.data)) as archive:
                found = {one.name: archive.extractfile(one).read() for one in archive}
            return found, answer.headers

        yield read


def test_a_checkpoint_comes_as_one_file(fetch, home):
    name = "\u00e4" * 90 + "/" + "deep" * 30
    (home.checkpoints / UUID / name).parent.mkdir()
    (home.checkpoints / UUID / name).write_bytes(b"")

    found, headers = fetch(f"/checkpoints/{UUID[:8]}/archive.tar")

    assert found == {
        f"checkpoint-{UUID}/weights": bytes(range(256)) * 5000,
        f"checkpoint-{UUID}/{name}": b"",
    }
    assert headers["Content-Disposition"].endswith(f"checkpoint-{UUID}.tar")
    assert headers["Content-Type"] == "application/x-tar"


def test_code_comes_as_one_file(fetch):
    found, _ = fetch("/experiments/1/files.tar")
    assert found == {
        "experiment-1/data/a b.txt": "\u00e4".encode(),
        "experiment-1/model_def.py": b"class Digits: ...\n",
    }


def test_a_file_that_is_cut_meanwhile_ends_the_answer(url, home, monkeypatch):
    weights = home.checkpoints / UUID / "weights"
    weights.write_bytes(bytes(5_000_000))
    with urllib3.PoolManager(retries=False) as pool:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        path = f"{url}/api/v1/checkpoints/{UUID}/archive.tar"
        answer = pool.request("GET", path, headers=headers, preload_content=False)
        answer.read(100)
        weights.write_bytes(b"")
        with pytest.raises(urllib3.exceptions.HTTPError):
            answer.read()


def test_what_is_not_there_is_no_archive(http):
    assert http("GET", "/api/v1/checkpoints/ffffffff/archive.tar").status == 404
    assert http("GET", "/api/v1/experiments/9/files.tar").status == 404
