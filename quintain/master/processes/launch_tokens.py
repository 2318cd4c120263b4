"""Tokens of launches, one for each trial process.

A token is made of the trial, the launch and a seal over both by a key that stays in the home
directory. So a restarted master knows the tokens of the processes that it takes over, and no token
is stored anywhere.
"""

import dataclasses
import hashlib
import hmac
import secrets
from typing import Self

_KEY_BYTES = 32


@dataclasses.dataclass(frozen=True)
class LaunchKey:
    """Makes and checks the tokens of launches.

    Example:
        >>> key = LaunchKey(bytes(32))
        >>> key.find_launch(key.build_token(7, "t7-1"))
        (7, 't7-1')
        >>> key.find_launch(LaunchKey.generate().build_token(7, "t7-1")) is None
        True
    """

    key: bytes = dataclasses.field(repr=False)
    """32 random bytes."""

    @classmethod
    def generate(cls) -> Self:
        """Returns a new key."""
        return cls(secrets.token_bytes(_KEY_BYTES))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Returns the key that `to_text` wrote.

        Raises:
            ValueError: If it is none.
        """
        key = bytes.fromhex(text)
        if len(key) != _KEY_BYTES:
            raise ValueError(f"key: got {len(key)} bytes, expected {_KEY_BYTES}.")
        return cls(key)

    def to_text(self) -> str:
        """Returns the key as text."""
        return self.key.hex()

    def build_token(self, trial_id: int, launch_id: str) -> str:
        """Returns the token of a launch."""
        name = f"{trial_id}/{launch_id}"
        return f"{name}/{hmac.new(self.key, name.encode(), hashlib.sha256).hexdigest()}"

    def find_launch(self, token: str) -> tuple[int, str] | None:
        """Returns (trial, launch) of a token, or None if this key did not make it."""
        name, _, _ = token.rpartition("/")
        trial_text, _, launch_id = name.partition("/")
        if not (trial_text.isascii() and trial_text.isdecimal() and len(trial_text) < 20):
            return None
        expected = self.build_token(int(trial_text), launch_id)
        is_ours = hmac.compare_digest(expected.encode(), token.encode("utf-8", "replace"))
        return (int(trial_text), launch_id) if is_ours else None
