"""The protocols that clients speak. Each reads a body to an `Ask`, and writes an `Answer`, or its parts as
they come, or an error, in the form its SDKs expect."""

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
