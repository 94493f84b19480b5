"""A scripted model server: Anthropic's Messages and OpenAI's Chat Completions, streamed over loopback, as
strict as the real ones, with tokens counted and prompt caches simulated; `server` is where to begin."""
