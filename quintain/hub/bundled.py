"""A tiny model and conversations that are made here, to try fine-tuning without a download."""

import functools
import random
import string
import tempfile
from collections.abc import Iterator
from typing import Any, Final

from quintain import errors
from quintain.hub import records

PREFIX: Final = "bundled:"
MODEL: Final = f"{PREFIX}gpt2"
"""A GPT-2 with random weights and a vocabulary of characters."""

_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_NUM_CONVERSATIONS: Final = {"train": 2_000, "validation": 200}


@functools.cache
def write_model(models: Any) -> str:
    """Writes the model's preset for this process, and returns its directory.

    Args:
        models: `keras_hub.models`.
    """
    signs = [*string.ascii_letters, *string.digits, *string.punctuation, "Ġ", "Ċ", "ĠĠ"]
    vocabulary = {sign: number for number, sign in enumerate(["<|endoftext|>", *signs])}
    tokenizer = models.GPT2Tokenizer(vocabulary=vocabulary, merges=["Ġ Ġ"])
    backbone = models.GPT2Backbone(
        vocabulary_size=len(vocabulary),
        num_layers=2,
        num_heads=4,
        hidden_dim=64,
        intermediate_dim=128,
        max_sequence_length=256,
        dropout=0.0,
    )
    directory = tempfile.TemporaryDirectory(prefix="quintain-hub-")
    _directories.append(directory)  # It goes when the process ends.
    backbone.save_to_preset(directory.name)
    tokenizer.save_to_preset(directory.name)
    return directory.name


_directories: Final[list[Any]] = []


def make_conversations(name: str) -> Iterator[records.Row]:
    """Yields conversations on even and odd numbers, and on days.

    Raises:
        DataError: If there are none of this name.
    """
    path = name.removeprefix(PREFIX)
    split = path.removeprefix("conversations/")
    if split not in _NUM_CONVERSATIONS or path == split:
        known = [f"{PREFIX}conversations/{one}" for one in _NUM_CONVERSATIONS]
        raise errors.DataError(f"input_path: got {name!r}, expected one of {', '.join(known)}.")
    generator = random.Random(split)
    for number in range(1, _NUM_CONVERSATIONS[split] + 1):
        turns = []
        for _ in range(generator.randint(1, 2)):
            question, answer = _make_turn(generator)
            turns.append({"role": "user", "content": question})
            turns.append({"role": "assistant", "content": answer})
        yield f"{name}:{number}", {"messages": turns}


def _make_turn(generator: random.Random) -> tuple[str, str]:
    if generator.random() < 0.5:
        number = generator.randrange(10_000)
        return f"Is {number} even or odd?", ("It is odd.", "It is even.")[number % 2 == 0]
    day = generator.randrange(7)
    return f"What comes after {_DAYS[day]}?", f"{_DAYS[(day + 1) % 7]}."
