"""Import that registers all experiments and tasks of this package."""

from quintain.garden.utils.testing import mock_task  # noqa: F401
from quintain.nlp import experiments as experiments
from quintain.nlp import tasks as tasks
