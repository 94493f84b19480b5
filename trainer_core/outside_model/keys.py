"""Where an outside model is, and which key the next request takes."""

from __future__ import annotations

from collections.abc import Mapping

from trainer_core.types import TrainingError

DASHSCOPE = "https://dashscope.aliyuncs.com/compatible-mode/v1"
OPENAI = "https://api.openai.com/v1"
_NO_KEY = "none"
"""What a server without keys is sent."""


class Keys:
    """Keys that take turns, and others for when all of those fail."""

    def __init__(self, first: str, backup: str = "") -> None:
        """Each: keys with `|` between them."""
        self._first, self._backup = _split(first), _split(backup)

    def turn(self) -> list[str]:
        """The keys that a request tries one after the other; the next request begins with another one."""
        tried = [*self._first, *self._backup]
        self._first = [*self._first[1:], *self._first[:1]]
        return tried

    def drop(self, key: str) -> None:
        """Never try `key` again."""
        self._first = [each for each in self._first if each != key]
        self._backup = [each for each in self._backup if each != key]


def _split(keys: str) -> list[str]:
    return [key.strip() for key in keys.split("|") if key.strip()]


def find_endpoint(
    environment: Mapping[str, str], *, base_url: str | None = None, api_key: str | None = None
) -> tuple[str, Keys]:
    """Address and keys of the endpoint that the environment names: `OPENAI_BASE_URL`, else DashScope where
    there is a `DASHSCOPE_API_KEY`, else OpenAI where there is an `OPENAI_API_KEY`. `base_url` and `api_key`
    are stronger.

    Raises:
        TrainingError: it names none.
    """
    url = base_url or environment.get("OPENAI_BASE_URL")
    dashscope, openai = environment.get("DASHSCOPE_API_KEY", ""), environment.get("OPENAI_API_KEY", "")
    backup = environment.get("DASHSCOPE_API_KEY_BACKUP", "")
    if url is None and not dashscope and not openai:
        raise TrainingError(
            "an outside model is asked, but the environment names none. Set OPENAI_BASE_URL (and "
            "OPENAI_API_KEY where the server wants one), DASHSCOPE_API_KEY or OPENAI_API_KEY"
        )
    if url is None:
        url = DASHSCOPE if dashscope else OPENAI
    if api_key:
        return url, Keys(api_key)
    if (dashscope and "dashscope" in url) or not openai:
        return url, Keys(dashscope, backup) if dashscope else Keys(_NO_KEY)
    return url, Keys(openai)
