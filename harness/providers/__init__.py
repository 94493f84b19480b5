"""Language models: who they are, what they cost, and how one is asked.

In reading order: `chat` (the words every provider is spoken to in), `anthropic` and `openai` (one thin file
each over the official SDKs; `stream` holds what they share), `settings` (harness.toml), `choice`
(from `--model` and harness.toml to a provider), `cost` (prices and limits), `transcript` (every request and
reply on disk), `model` (`Model`: limits, patience, records), `tools` (typed actions as tools), `conversation`
(the engine that agent, author and sweeps talk through; its memory are journal entries).

A call goes `configured(...)` → `open_model(config, ...)` → `await model.ask(request, spending)`.
The SDKs are imported when a provider is made, never before. Import from the modules themselves.
"""
