"""One agent, two questions long, written in the ways that people write agents."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from typing import Any

from trainer_core.types import Task
from trainer_core.workflow import Tuner, Workflow, WorkflowOutput

SYSTEM, AGAIN = "Sort.", "Once more."


def reward_of(text: str, task: Task) -> float:
    return sum(map(ord, text + (task.answer or ""))) % 8 / 8  # no two answers alike


class WithOpenAI(Workflow):
    async def execute(self, task: Task, tuner: Tuner) -> WorkflowOutput:
        client = tuner.as_raw_openai_sdk_client()
        messages: list[Any] = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": task.main_query},
        ]
        answer = await client.chat.completions.create(model=tuner.model, messages=messages)
        messages += [answer.choices[0].message.model_dump(), {"role": "user", "content": AGAIN}]
        answer = await client.chat.completions.create(model=tuner.model, messages=messages)
        return WorkflowOutput(reward_of(answer.choices[0].message.content or "", task))


async def with_responses(task: Task, tuner: Tuner) -> float:
    client = tuner.as_raw_openai_sdk_client()
    items: list[Any] = [{"role": "user", "content": task.main_query}]
    answer = await client.responses.create(model=tuner.model, instructions=SYSTEM, input=items)
    items += [*answer.model_dump()["output"], {"role": "user", "content": AGAIN}]
    answer = await client.responses.create(model=tuner.model, instructions=SYSTEM, input=items)
    return reward_of(answer.output_text, task)


async def with_anthropic(task: Task, tuner: Tuner) -> float:
    client = tuner.as_anthropic_client()
    asked: dict[str, Any] = {"model": tuner.model, "max_tokens": 100, "system": SYSTEM}
    messages: list[Any] = [{"role": "user", "content": task.main_query}]
    async with client.messages.stream(messages=messages, **asked) as stream:
        answer = await stream.get_final_message()
    messages += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": AGAIN}]
    answer = await client.messages.create(messages=messages, **asked)
    return reward_of("".join(block.text for block in answer.content if block.type == "text"), task)


async def with_langchain(task: Task, tuner: Tuner) -> float:
    model = tuner.as_langchain_model()
    messages: list[Any] = [("system", SYSTEM), ("user", task.main_query)]
    messages += [await model.ainvoke(messages), ("user", AGAIN)]
    return reward_of((await model.ainvoke(messages)).content, task)


def with_the_standard_library(task: Task, tuner: Tuner) -> float:
    endpoint = tuner.as_oai_baseurl_apikey()

    def ask(messages: list[Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{endpoint.base_url}/chat/completions",
            json.dumps({"model": tuner.model, "messages": messages}).encode(),
            {"authorization": f"Bearer {endpoint.api_key}"},
        )
        with urllib.request.urlopen(request) as answer:
            message: dict[str, Any] = json.load(answer)["choices"][0]["message"]
            return message

    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task.main_query}]
    messages += [ask(messages), {"role": "user", "content": AGAIN}]
    return reward_of(ask(messages)["content"] or "", task)


_CURL = """
body() { printf '{"model": "tiny", "messages": [%s]}' "$1"; }
ask() { body "$1" | curl -sS "$BASE/chat/completions" -H "authorization: Bearer $KEY" -d @-; }
said() { "$PYTHON" -c 'import json, sys; print(json.dumps(json.load(sys.stdin)["choices"][0]["message"]))'; }
first=$(ask "$MESSAGES" | said)
ask "$MESSAGES, $first, $AGAIN" | said
"""


async def with_curl(task: Task, tuner: Tuner) -> float:
    endpoint = tuner.as_oai_baseurl_apikey()
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task.main_query}]
    variables = {
        "BASE": endpoint.base_url,
        "KEY": endpoint.api_key,
        "PYTHON": sys.executable,
        "MESSAGES": ", ".join(map(json.dumps, messages)),
        "AGAIN": json.dumps({"role": "user", "content": AGAIN}),
    }
    agent = await asyncio.create_subprocess_exec("bash", "-c", _CURL, env=variables, stdout=subprocess.PIPE)
    output, _ = await agent.communicate()
    return reward_of(json.loads(output)["content"] or "", task)
