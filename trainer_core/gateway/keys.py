"""The api_keys of episodes: a random handle and a signature, which say nothing to who reads them."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from typing import Generic, TypeVar

from trainer_core.gateway.ask import GatewayError

Owner = TypeVar("Owner")
_PREFIX = "sk-ajet-"
_HANDLE = 16


class Keys(Generic[Owner]):
    """Which key belongs to whom."""

    def __init__(self, lifetime_s: float) -> None:
        self._secret = secrets.token_bytes(32)
        self._lifetime_s = lifetime_s
        self._owners: dict[bytes, tuple[Owner, float]] = {}

    def issue(self, owner: Owner) -> str:
        """A new key for `owner`, for as long as keys live."""
        handle = secrets.token_bytes(_HANDLE)
        self._owners[handle] = owner, time.monotonic() + self._lifetime_s
        return _PREFIX + (handle + self._sign(handle)).hex()

    def owner(self, key: str) -> Owner:
        """Whose key it is.

        Raises:
            GatewayError: 401, with the reason.
        """
        if not key:
            raise _unauthorized("no api_key was sent; send the one of your episode", "missing_api_key")
        handle = self._handle(key)
        if handle is None:
            raise _unauthorized("this api_key was not issued by this server", "invalid_api_key")
        owner, expires = self._owners.get(handle, (None, 0.0))
        if owner is None:
            raise _unauthorized("the episode of this api_key has ended", "episode_ended")
        if time.monotonic() > expires:
            raise _unauthorized("this api_key has expired", "expired_api_key")
        return owner

    def revoke(self, key: str) -> None:
        """From now on nobody's."""
        handle = self._handle(key)
        if handle is not None:
            self._owners.pop(handle, None)

    def _handle(self, key: str) -> bytes | None:
        """The handle of a key with a good signature."""
        try:
            raw = bytes.fromhex(key.removeprefix(_PREFIX))
        except ValueError:
            return None
        handle, signature = raw[:_HANDLE], raw[_HANDLE:]
        return handle if hmac.compare_digest(signature, self._sign(handle)) else None

    def _sign(self, handle: bytes) -> bytes:
        return hmac.digest(self._secret, handle, hashlib.sha256)[:_HANDLE]


def _unauthorized(message: str, code: str) -> GatewayError:
    return GatewayError(401, message, code=code)
