"""Registers all experiments and tasks of this package, by being imported."""

from quintain.nlp import experiments as experiments
from quintain.nlp import tasks as tasks
from quintain.utils.testing import mock_task as mock_task
