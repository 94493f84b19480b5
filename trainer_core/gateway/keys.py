"""The api_keys of episodes: random and signed, they say nothing to who reads them."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from typing import Generic, TypeVar

from trainer_core.gateway.ask import GatewayError, episode_ended

Owner = TypeVar("Owner")
_PREFIX = "sk-ajet-"
_DIGITS = 32


class Keys(Generic[Owner]):
    """Which key belongs to whom."""

    def __init__(self, lifetime_s: float, secret: bytes | None = None) -> None:
        """`secret`: that of the keys which an earlier process has issued."""
        self._secret = secret or secrets.token_bytes(32)
        self._lifetime_s = lifetime_s
        self._owners: dict[str, tuple[Owner, float]] = {}

    def issue(self, owner: Owner) -> str:
        """A new key for `owner`, for as long as keys live."""
        key = self._signed(secrets.token_hex(_DIGITS // 2))
        self._owners[key] = owner, time.monotonic() + self._lifetime_s
        return key

    def owner(self, key: str) -> Owner:
        """Whose key it is.

        Raises:
            GatewayError: 401, with the reason.
        """
        if key in self._owners:
            owner, expires = self._owners[key]
            if time.monotonic() > expires:
                raise GatewayError(401, "this api_key has expired", code="expired_api_key")
            return owner
        if not key:
            message = "no api_key was sent; send the one of your episode"
            raise GatewayError(401, message, code="missing_api_key")
        signed = self._signed(key.removeprefix(_PREFIX)[:_DIGITS])
        if not hmac.compare_digest(key.encode(), signed.encode()):
            raise GatewayError(401, "this api_key was not issued by this server", code="invalid_api_key")
        raise episode_ended()

    def revoke(self, key: str) -> None:
        """From now on nobody's."""
        self._owners.pop(key, None)

    def _signed(self, handle: str) -> str:
        return _PREFIX + handle + hmac.digest(self._secret, handle.encode(), hashlib.sha256).hex()[:_DIGITS]
