"""Background calls for functions in which TensorFlow waits with an idle processor.

In a session, what initialises an iterator anew or closes the session waits for the iterator that
was there before, up to a minute (`quintain.orbit.iterators` says why).
"""

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any


def start(function: Callable[[], Any]) -> concurrent.futures.Future[Any]:
    """Calls a function in another thread.

    Args:
        function: What is called. A trial's process ends without waiting for it.

    Returns:
        The future of what it returns or raises.
    """
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - for whom asks the future.
            future.set_exception(error)

    threading.Thread(target=call, name="background_call").start()
    return future
