import pytest

from quintain.server import alert_request

WAIT_SECS = 30


@pytest.mark.parametrize(
    ("status", "exit_code"),
    [(204, 0), (500, 1), (429, 1), (302, 1), (404, alert_request.FINAL_EXIT)],
)
def test_the_exit_code_says_whether_to_try_again(hook, status, exit_code):
    hook.answers[:] = [status]

    found = alert_request.post(hook.url, {"a": 1})

    assert found == (exit_code, f"it answered {status}" if exit_code else "")
    assert hook.got.get(timeout=WAIT_SECS) == ("/hook", "application/json", {"a": 1})
    assert hook.got.empty()  # A redirection is not followed.


def test_an_address_without_a_server_is_tried_again():
    exit_code, message = alert_request.post("http://127.0.0.1:1/", {})

    assert exit_code == 1
    assert "NewConnectionError" in message
