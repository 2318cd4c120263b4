"""Talks to a running master over HTTP.

For programs and notebooks: `quintain.client.connect()` returns its experiments.
"""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__, names={"notebook.notebook": ("Experiment", "Platform", "Trial", "connect")}
)
