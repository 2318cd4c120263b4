"""The table of calls, the addresses of the master, and what is read without one, are the same."""

from quintain.client import call_table, calls, file_calls, worker_client
from quintain.server import direct_calls
from quintain.store import reading


def test_every_declared_call_is_an_address_of_the_master(app):
    paths = app.openapi()["paths"]
    declared = [
        *call_table.list_calls(calls.MasterCalls).values(),
        *call_table.list_calls(worker_client.WorkerClient).values(),
        *call_table.list_calls(file_calls.FileCalls).values(),
    ]

    missing = [
        one
        for one in declared
        if one.method.lower() not in paths.get(call_table.PREFIX + one.path, {})
    ]

    assert len(declared) > 50
    assert not missing


def test_every_read_is_answered_without_a_master():
    read_by_name = call_table.list_calls(direct_calls.DirectCalls)

    assert all(callable(getattr(reading.Reader, name, None)) for name in read_by_name)
