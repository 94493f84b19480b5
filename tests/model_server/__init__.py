"""A model server with a script instead of a model, for tests and benchmarks.

It speaks Anthropic's Messages and OpenAI's Chat Completions over HTTP on loopback, streaming, is as
strict as the real ones about what it is sent, counts tokens and simulates their prompt caches.

`steps` what it may answer · `seen` what a script is shown of a request · `scripts` scripted models ·
`caching` tokens and prompt caches, also usable without HTTP · `server` the server itself. The rest is
private: `prompt` is a request in no protocol's words, `anthropic_dialect` and `openai_dialect` say what each
protocol forbids and translate both ways, `tool_schema` checks JSON schemas, `transport` is the HTTP.
"""
