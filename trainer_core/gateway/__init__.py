"""The model behind an agent: an HTTP server that speaks OpenAI's, Anthropic's and vLLM's protocols, and keeps
every call token for token.

    client → server.py, exchange.py (HTTP, keys) → dialects/ (a body → Ask)
           → answering.py (prompt → engine → Answer) → recording.py (calls); chat_format.py (messages ↔ ids)
"""

from trainer_core.gateway.recording import EpisodeRules as EpisodeRules
from trainer_core.gateway.recording import OpenEpisode as OpenEpisode
from trainer_core.gateway.recording import OtherModel as OtherModel
from trainer_core.gateway.recording import Recorded as Recorded
from trainer_core.gateway.server import Gateway as Gateway
