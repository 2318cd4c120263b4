"""Graceful stop of a training on a signal, without loss.

Python runs its own signal handlers only between two bytecodes of the main thread, and one call of a
`tf.function` that loops over thousands of steps is one bytecode. `Interruption` therefore watches
for signals in a thread of its own and sets a `tf.Variable` that the condition of the graph's loop
reads before every step.
"""

import contextlib
import logging
import os
import signal
import threading
import time
import types
from typing import Any, Final

import tensorflow as tf

from quintain.orbit import cluster
from quintain.process import told_again

_logger = logging.getLogger(__name__)

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_WAKE_UP: Final = b"\0"
_READY_SECS: Final = 60.0


class Interrupted(Exception):  # noqa: N818 - a way to leave the loop, not an error
    """Training or evaluation was asked to stop, and stopped in a state that can be resumed.

    Attributes:
        step: Global step at which it stopped. A checkpoint of this step was saved if the
            controller has a checkpoint manager and a trainer.
        reason: Why, for people: "SIGTERM" or what `Interruption.request` was given.
    """

    def __init__(self, step: int, reason: str) -> None:
        super().__init__(f"Stopped at step {step} on {reason}.")
        self.step = step
        self.reason = reason


class EvaluationInterrupted(Exception):  # noqa: N818 - as above
    """An evaluator was asked to stop before it had its result; for `Controller` to catch."""


def is_stop_agreed(interruption: "Interruption | None", strategy: tf.distribute.Strategy) -> bool:
    """Returns whether to stop; the same on all workers, which must all call it at the same point.

    A request to one worker is a request to all of them.
    """
    if interruption is None:
        return False
    if cluster.num_workers(strategy) == 1:
        return interruption.requested
    if not bool(cluster.any_worker(strategy, interruption.requested)):
        return False
    own = interruption.reason if interruption.requested else None
    reasons = cluster.gather(strategy, (own or "").encode())
    interruption.request(next(reason.decode() for reason in reasons if reason))
    return True


class Interruption:
    """Turns SIGTERM, SIGINT and SIGHUP into a request to stop after the current step.

    SIGHUP, the end of the terminal, is left alone where it is ignored, as under `nohup`.

    Use it as a context manager around the life of a `Controller`. Signals can only be handled from
    the main thread; in any other thread the object still works, but only `request` sets it.

    The first signal sets `requested` and `flag`. A second one, at least `told_again.REPEAT_SECS`
    later, has the effect that it had before the context was entered (usually: KeyboardInterrupt for
    SIGINT, the end of the process for SIGTERM).

    Example:
        >>> with Interruption() as interruption:
        ...     interruption.request("the budget is used up")
        ...     interruption.requested, interruption.reason
        (True, 'the budget is used up')
    """

    def __init__(self) -> None:
        self._flag: tf.Variable | None = None
        self._reason: str | None = None
        self._requested = threading.Event()
        self._ready = threading.Event()
        self._requested_secs = 0.0  # `time.monotonic()` of the first request
        self._watcher: threading.Thread | None = None
        self._cleanup = contextlib.ExitStack()
        self._previous_handlers: dict[int, Any] = {}
        self._previous_wakeup_fd = -1

    @property
    def requested(self) -> bool:
        """True once the process was asked to stop."""
        return self._requested.is_set()

    @property
    def reason(self) -> str | None:
        """Reason of the request to stop ("SIGTERM", "SIGINT", ...); None without a request."""
        return self._reason

    @property
    def flag(self) -> tf.Variable | None:
        """`[]` bool variable on the CPU that graphs read. None outside of the context."""
        return self._flag

    def request(self, reason: str) -> None:
        """Asks to stop, as a signal would. The first reason is kept. Any thread may call this."""
        if self._requested.is_set():
            return
        self._reason = reason
        self._requested_secs = time.monotonic()
        self._requested.set()
        if self._flag is not None:
            self._flag.assign(True)

    def wait(self, secs: float) -> bool:
        """Sleeps for `secs` seconds or until stopping is requested; returns `requested`."""
        return self._requested.wait(secs)

    def __enter__(self) -> "Interruption":
        if self._watcher is not None:
            raise RuntimeError("An `Interruption` can be entered only once; create a new one.")
        read_fd, write_fd = os.pipe()
        os.set_blocking(write_fd, False)
        self._cleanup.callback(os.close, read_fd)
        self._cleanup.callback(os.close, write_fd)
        self._watcher = threading.Thread(
            target=self._watch, args=(read_fd,), name="quintain-interruption", daemon=True
        )
        self._watcher.start()
        self._cleanup.callback(self._stop_watcher, write_fd)
        # The variable is made by the watcher: a fresh thread is in no distribution strategy's scope
        # and in no graph, whatever the caller is in.
        if not self._ready.wait(_READY_SECS):
            raise RuntimeError("The thread that watches for signals did not start.")
        if threading.current_thread() is threading.main_thread():
            self._install_handlers(write_fd)
        else:
            _logger.warning(
                "Not in the main thread: SIGTERM and SIGINT will not end the training in order."
            )
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        self._cleanup.close()
        self._flag = None

    def _install_handlers(self, write_fd: int) -> None:
        """Routes signals to the watcher, and remembers what to put back."""
        self._previous_wakeup_fd = signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
        self._cleanup.callback(signal.set_wakeup_fd, self._previous_wakeup_fd)
        for number in _SIGNALS:
            previous = signal.getsignal(number)
            if number is signal.SIGHUP and previous is signal.SIG_IGN:
                continue  # started with `nohup`
            if previous is None:
                _logger.warning(
                    "%s has a handler that Python did not install; it is left alone.", number.name
                )
                continue
            self._previous_handlers[number] = previous
            signal.signal(number, self._handle)
            self._cleanup.callback(signal.signal, number, previous)

    def _handle(self, number: int, frame: types.FrameType | None) -> None:
        """Python's own handler: runs in the main thread, when it is back in Python."""
        del frame
        if self._is_repeated():
            signal.signal(number, self._previous_handlers[number])
            signal.raise_signal(number)
        else:
            self.request(signal.Signals(number).name)

    def _watch(self, read_fd: int) -> None:
        with tf.device("CPU:0"):
            self._flag = tf.Variable(self.requested, trainable=False, name="interruption")
        self._ready.set()
        while True:
            for number in os.read(read_fd, 64):
                if number == _WAKE_UP[0]:
                    return
                self._forward(number)
                if number in self._previous_handlers:
                    self._on_signal(number)

    def _on_signal(self, number: int) -> None:
        if not self._is_repeated():
            self.request(signal.Signals(number).name)
        elif self._previous_handlers[number] == signal.SIG_DFL:
            # The main thread cannot run `_handle` while it is inside of a graph that hangs, and the
            # default action of SIGTERM does not wait for it either.
            os._exit(128 + number)

    def _is_repeated(self) -> bool:
        passed_secs = time.monotonic() - self._requested_secs
        return self.requested and passed_secs >= told_again.REPEAT_SECS

    def _forward(self, number: int) -> None:
        """Hands the signal on to whoever listened before, for example an asyncio loop."""
        if self._previous_wakeup_fd != -1:
            with contextlib.suppress(OSError):
                os.write(self._previous_wakeup_fd, bytes([number]))

    def _stop_watcher(self, write_fd: int) -> None:
        os.write(write_fd, _WAKE_UP)
        if self._watcher is not None:
            self._watcher.join()
