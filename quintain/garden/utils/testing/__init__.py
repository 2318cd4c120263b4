"""Test fixtures of programs. The modules load when they are first used."""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(__name__, ("integration", "mock_task"))
