import string

import numpy as np
import pytest

from quintain.search import base_search, searcher
from quintain.search import space as space_lib


@pytest.fixture
def play():
    """Returns a function that plays a search by hand, its trials named A, B, C... as they come."""
    return Play


class Play:
    """One search. Each event returns what is to be done after it, in words.

    "A to 4" asks to train and validate trial A, "new C of A" starts C from the checkpoint of A.
    """

    def __init__(self, build, space=None, **sizes):
        space = {"x": {"type": "double", "minval": 0, "maxval": 1}} if space is None else space
        self.method = build(space_lib.Space.parse(space), np.random.RandomState(1), **sizes)
        self.search = searcher.Searcher(self.method)
        self.hparams = {}
        self._letters = {}

    def start(self):
        return self._describe(self.search.start())

    def result(self, letter, metric, length):
        return self._record(searcher.Validated(self._find(letter), metric, length))

    def saved(self, letter):
        return self._record(searcher.Checkpointed(self._find(letter)))

    def closed(self, letter):
        return self._record(searcher.Closed(self._find(letter)))

    def failed(self, letter, reason=base_search.ExitReason.ERRORED):
        return self._record(searcher.ExitedEarly(self._find(letter), reason))

    def invalid(self, letter):
        return self.failed(letter, base_search.ExitReason.INVALID_HP)

    def extend(self, max_trials):
        self.search.check_extension(max_trials)
        return self._describe(self.search.extend(max_trials))

    def reopen(self, letter, length):
        return self._describe(self.search.reopen(self._find(letter), length, has_failed=False))

    def _record(self, event):
        return self._describe(self.search.record(event))

    def _find(self, letter):
        return next(name for name, known in self._letters.items() if known == letter)

    def _describe(self, operations):
        words, is_trained = [], None
        for operation in operations:
            match operation:
                case base_search.Create(name, hparams, _, parent):
                    letter = self._letters[name] = string.ascii_uppercase[len(self._letters)]
                    self.hparams[letter] = hparams
                    origin = f" of {self._letters[parent]}" if parent else ""
                    words.append(f"new {letter}{origin}")
                case base_search.Train(name, length):
                    words.append(f"{self._letters[name]} to {length}")
                case base_search.Validate(name):
                    assert is_trained == name, "a validation without training before it"
                case base_search.Checkpoint(name):
                    words.append(f"save {self._letters[name]}")
                case base_search.Close(name):
                    words.append(f"close {self._letters[name]}")
                case base_search.Note(name, _):
                    words.append(f"note {self._letters[name]}")
                case base_search.Shutdown(has_failed):
                    words.append("failed" if has_failed else "over")
            is_train = isinstance(operation, base_search.Train)
            is_trained = operation.request_id if is_train else None
        return words
