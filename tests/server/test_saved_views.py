"""Named views of the page."""

import pytest

from quintain import errors
from quintain.server import saved_views


def save(http, name, address="/experiments/1?tab=curves"):
    return http("PUT", "/api/v1/views", body={"name": name, "address": address})


def test_views_are_saved_replaced_listed_by_name_and_deleted(http, home):
    assert http("GET", "/api/v1/views").json == []
    for name, address in (("smooth", "/runs?smooth=0.9"), ("a/b ü", "/runs"), ("smooth", "/runs")):
        assert save(http, name, address).status == 200

    expected = [{"name": name, "address": "/runs"} for name in ("a/b ü", "smooth")]
    assert http("GET", "/api/v1/views").json == expected
    assert saved_views.SavedViews(home.views_file).list_views() == expected
    assert home.views_file.stat().st_mode & 0o077 == 0

    assert http("DELETE", "/api/v1/views?name=a/b%20%C3%BC").status == 200
    assert http("GET", "/api/v1/views").json == expected[1:]
    answer = http("DELETE", "/api/v1/views?name=gone")
    assert (answer.status, answer.json["error"]["kind"]) == (404, "NotFoundError")


@pytest.mark.parametrize("name", ["", " a", "a\n", "\u202e", "a" * 101])
def test_a_name_is_visible(http, name):
    answer = save(http, name)
    assert (answer.status, answer.json["error"]["message"][:5]) == (400, "name:")


@pytest.mark.parametrize("address", ["", "https://elsewhere", "/ä", "/" + "a" * 8000])
def test_an_address_is_one_of_the_page(http, address):
    answer = save(http, "view", address)
    assert (answer.status, answer.json["error"]["message"][:8]) == (400, "address:")


def test_a_home_keeps_a_limited_number_of_views_and_no_damaged_file_is_replaced(tmp_path):
    path = tmp_path / "views.json"
    views = saved_views.SavedViews(path)
    path.write_text("{" + ", ".join(f'"{at}": "/"' for at in range(saved_views.MOST_VIEWS)) + "}")
    with pytest.raises(errors.ConfigError, match="Delete some"):
        views.save("one more", "/")
    views.save("0", "/runs")
    assert views.list_views()[0] == {"name": "0", "address": "/runs"}

    path.write_text("{")
    with pytest.raises(errors.DamagedFileError):
        views.save("0", "/runs")
    assert path.read_text() == "{"
