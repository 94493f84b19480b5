"""Language models: who they are, what they cost, and how one is asked.

In reading order: `types` (the words every provider is spoken to in), `anthropic` and `openai` (one thin file
each over the official SDKs; `turns`, `streaming`, `failures` hold what they share), `settings`
(harness.toml), `choice` (from `--model` and harness.toml to a provider), `prices`, `spending` (limits),
`transcript` (every request and reply on disk, and their replay), `asking` (`Model`: limits, patience,
records; what policies talk to).

A run goes `configured(...)` → `make_provider(config)` → `Model(...)` → `await model.ask(request, spending)`.
The SDKs are imported when a provider is made, never before.
"""

from harness.providers.asking import (
    AskError,
    InterruptedAskError,
    LimitReachedError,
    Model,
    OutOfPatienceError,
)
from harness.providers.choice import LlmConfig, configured, make_provider
from harness.providers.prices import Price
from harness.providers.settings import ConfigurationError
from harness.providers.spending import Limits, Spending
from harness.providers.transcript import Transcript, request_hash
from harness.providers.types import (
    AssistantTurn,
    Provider,
    ProviderError,
    RejectedError,
    Reply,
    Request,
    RequestTooLongError,
    StopReason,
    Tool,
    ToolCall,
    ToolResultTurn,
    UnavailableError,
    Usage,
    UserTurn,
)

__all__ = [
    "AskError",
    "AssistantTurn",
    "ConfigurationError",
    "InterruptedAskError",
    "LimitReachedError",
    "Limits",
    "LlmConfig",
    "Model",
    "OutOfPatienceError",
    "Price",
    "Provider",
    "ProviderError",
    "RejectedError",
    "Reply",
    "Request",
    "RequestTooLongError",
    "Spending",
    "StopReason",
    "Tool",
    "ToolCall",
    "ToolResultTurn",
    "Transcript",
    "UnavailableError",
    "Usage",
    "UserTurn",
    "configured",
    "make_provider",
    "request_hash",
]
