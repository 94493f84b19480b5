"""Runs where verifiers is installed: its TrainClient, unchanged, asks twice in one conversation.

`python train_client.py BASE_URL TOKENIZER MODEL`, with the key in AJET_KEY; prints the tokens it saw.
"""

import asyncio
import json
import sys

from renderers import Qwen3RendererConfig
from verifiers.v1.clients import resolve_client
from verifiers.v1.configs.client import TrainClientConfig
from verifiers.v1.dialects.chat import ChatDialect
from verifiers.v1.types import SamplingConfig


async def main(base_url: str, tokenizer: str, model: str) -> None:
    config = TrainClientConfig(
        base_url=base_url,
        api_key_var="AJET_KEY",
        renderer=Qwen3RendererConfig(),
        renderer_model_name=tokenizer,
    )
    client, messages, seen = resolve_client(config), [{"role": "user", "content": "one and two?"}], []
    for _ in range(2):
        body = {"model": model, "messages": messages}
        response = await client.get_response(ChatDialect(), body, SamplingConfig(max_tokens=9))
        tokens = response.tokens
        seen.append([tokens.prompt_ids, tokens.completion_ids, tokens.completion_logprobs])
        messages += [
            {"role": "assistant", "content": response.message.content},
            {"role": "user", "content": "and three?"},
        ]
    await client.close()
    print(json.dumps(seen))


asyncio.run(main(*sys.argv[1:]))
