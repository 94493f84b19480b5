"""The protocols that clients speak. Each reads a body to an `Ask`, and writes an `Answer`, or its parts as
they come, or an error, in the form its SDKs expect."""

import re
from collections.abc import Mapping

from trainer_core.gateway.dialects.chat import Chat
from trainer_core.gateway.dialects.completions import Completions, Tokens
from trainer_core.gateway.dialects.dialect import Dialect
from trainer_core.gateway.dialects.messages import Messages
from trainer_core.gateway.dialects.responses import Responses

DIALECTS: Mapping[str, type[Dialect]] = {
    "/v1/chat/completions": Chat,
    "/v1/completions": Completions,
    "/v1/responses": Responses,
    "/v1/messages": Messages,
    "/inference/v1/generate": Tokens,
}
"""By the path that clients post to."""
COUNT_TOKENS = "/v1/messages/count_tokens"
_MODEL = re.compile(r"/v1/models(/[\w-][\w.:-]*)?")


def answered_path(method: str, path: str) -> str | None:
    """The path of a request as the model's server answers it; None: it does not, nor may it be passed on."""
    path = path.rstrip("/")
    if path.startswith("/v1/v1/"):
        path = path.removeprefix("/v1")  # Anthropic's SDKs add /v1 to a base_url that has it
    is_known = path in DIALECTS or path == COUNT_TOKENS
    is_known = _MODEL.fullmatch(path) is not None if method == "GET" else method == "POST" and is_known
    return path if is_known else None
