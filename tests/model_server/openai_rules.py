"""What OpenAI's Chat Completions API does not take: `check` raises BadRequest with the words of the real one.

Only what a text-and-tools client needs is known: text content, function tools.
"""

from typing import Any

from tests.model_server import tool_schema
from tests.model_server.bad_request import NAME, BadRequest, number_within, require, whole_number

KNOWN = {
    *("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "stream", "stream_options"),
    *("max_tokens", "max_completion_tokens", "temperature", "top_p", "stop", "seed", "n", "user", "metadata"),
    *("frequency_penalty", "presence_penalty", "logprobs", "top_logprobs", "logit_bias", "response_format"),
    *("reasoning_effort", "verbosity", "store", "service_tier", "prompt_cache_key", "prompt_cache_retention"),
    "prompt_cache_options",
    *("safety_identifier",),
}
REASONING_MODELS = ("o1", "o3", "o4", "gpt-5")
LONGEST_DESCRIPTION = 1024
MOST_TOOLS = 128


def check(headers: dict[str, str], body: Any) -> None:
    """Raise BadRequest if the real server would refuse this."""
    bearer = headers.get("authorization", "").removeprefix("Bearer ").strip()
    require(bearer, "You didn't provide an API key. You need to provide it in an Authorization header.", 401)
    require(isinstance(body, dict), "We could not parse the JSON body of your request.")
    for key in body:
        require(key in KNOWN, f"Unrecognized request argument supplied: {key}")
    require(isinstance(body.get("model"), str) and body["model"], "you must provide a model parameter")
    _check_settings(body)
    _check_tools(body)
    _check_messages(body)


def _check_settings(body: dict[str, Any]) -> None:
    if body["model"].startswith(REASONING_MODELS):
        require(
            "max_tokens" not in body,
            "Unsupported parameter: 'max_tokens' is not supported with this model. "
            "Use 'max_completion_tokens' instead.",
        )
        require(
            body.get("temperature", 1) == 1,
            f"Unsupported value: 'temperature' does not support {body.get('temperature')} with this model. "
            "Only the default (1) value is supported.",
        )
    for key in ("max_tokens", "max_completion_tokens"):
        value = body.get(key)
        require(
            value is None or (whole_number(value) and value >= 1),
            f"Invalid '{key}': integer below minimum value. Expected a value >= 1, but got {value} instead.",
        )
    temperature = body.get("temperature")
    require(
        temperature is None or number_within(temperature, 0, 2),
        "Invalid 'temperature': decimal out of range 0 to 2.",
    )
    require(
        body.get("stream_options") is None or body.get("stream"),
        "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
    )


def _check_tools(body: dict[str, Any]) -> None:
    if "tools" not in body:
        for key in ("tool_choice", "parallel_tool_calls"):
            require(
                key not in body,
                f"Invalid value for '{key}': '{key}' is only allowed when 'tools' are specified.",
            )
        return
    tools = body["tools"]
    require(isinstance(tools, list), "Invalid type for 'tools': expected an array of objects.")
    require(
        tools,
        "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array.",
    )
    require(len(tools) <= MOST_TOOLS, f"Invalid 'tools': array too long. Expected at most {MOST_TOOLS}.")
    for index, tool in enumerate(tools):
        where = f"tools[{index}]"
        require(
            isinstance(tool, dict) and tool.get("type") == "function", f"Invalid value for '{where}.type'."
        )
        require(isinstance(tool.get("function"), dict), f"Missing required parameter: '{where}.function'.")
        _check_function(tool["function"], f"{where}.function")
    names = [tool["function"]["name"] for tool in tools]
    require(len(set(names)) == len(names), f"Invalid 'tools': duplicate function names in {names}")
    choice = body.get("tool_choice", "auto")
    if isinstance(choice, dict):
        wanted = (choice.get("function") or {}).get("name")
        require(
            wanted in names, f"Invalid value for 'tool_choice': no function named '{wanted}' was specified."
        )
    else:
        require(choice in ("auto", "none", "required"), f"Invalid value for 'tool_choice': {choice!r}")


def _check_function(function: dict[str, Any], where: str) -> None:
    for key in function:
        known = key in ("name", "description", "parameters", "strict")
        require(known, f"Unknown parameter: '{where}.{key}'.")
    _check_name(function.get("name"), f"{where}.name")
    description = function.get("description", "")
    require(isinstance(description, str), f"Invalid type for '{where}.description': expected a string.")
    require(
        len(description) <= LONGEST_DESCRIPTION,
        f"Invalid '{where}.description': string too long. Expected a string with maximum length "
        f"{LONGEST_DESCRIPTION}, but got a string with length {len(description)} instead.",
    )
    if "parameters" not in function:
        return
    schema = function["parameters"]
    fault = tool_schema.objection(schema) or next(tool_schema.arrays_without_items(schema), None)
    if not fault and function.get("strict"):
        fault = next(tool_schema.objects_left_open(schema), None)
    if fault:
        raise BadRequest(f"Invalid schema for function '{function['name']}': {fault}")


def _check_name(name: Any, where: str) -> None:
    require(
        isinstance(name, str) and NAME.fullmatch(name),
        f"Invalid '{where}': string does not match pattern. Expected a string that matches the pattern "
        "'^[a-zA-Z0-9_-]+$', at most 64 long.",
    )


def _check_messages(body: dict[str, Any]) -> None:
    messages = body.get("messages")
    require(isinstance(messages, list), "Missing required parameter: 'messages'.")
    assert isinstance(messages, list)
    require(messages, "Invalid 'messages': empty array. Expected an array with minimum length 1.")
    waiting: set[str] = set()
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        require(isinstance(message, dict), f"Invalid type for '{where}': expected an object.")
        role = message.get("role")
        if role == "tool":
            _check_result(message, where, waiting)
            waiting = waiting - {message["tool_call_id"]}
            continue
        _require_answered(waiting)
        waiting = set()
        if role == "assistant":
            waiting = _check_assistant(message, where)
            continue
        known = role in ("system", "developer", "user")
        require(
            known,
            f"Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', and 'tool'.",
        )
        _check_keys(message, ("role", "content", "name"), where)
        _check_content(message.get("content"), where)
    _require_answered(waiting)


def _require_answered(waiting: set[str]) -> None:
    require(
        not waiting,
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
        f"'tool_call_id'. The following tool_call_ids did not have response messages: "
        f"{', '.join(sorted(waiting))}",
    )


def _check_keys(message: dict[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in message:
        require(key in known, f"Unknown parameter: '{where}.{key}'.")


def _check_content(content: Any, where: str, may_be_empty: bool = False) -> None:
    if isinstance(content, list):
        require(content or may_be_empty, f"Invalid '{where}.content': empty array.")
        for index, part in enumerate(content):
            kind = part.get("type") if isinstance(part, dict) else None
            require(
                kind == "text", f"Invalid value for '{where}.content[{index}].type': '{kind}' is not text."
            )
            require(part.get("text"), f"Invalid '{where}.content[{index}].text': empty string.")
        return
    found = "null" if content is None else type(content).__name__
    require(
        isinstance(content, str), f"Invalid value for 'content': expected a string, got {found}. ({where})"
    )
    require(content or may_be_empty, f"Invalid '{where}.content': empty string.")


def _check_assistant(message: dict[str, Any], where: str) -> set[str]:
    """Check what the model is reminded to have said; return the ids of its calls."""
    _check_keys(message, ("role", "content", "name", "refusal", "tool_calls"), where)
    if message.get("content") is not None or not (message.get("tool_calls") or message.get("refusal")):
        _check_content(message.get("content"), where, may_be_empty=bool(message.get("tool_calls")))
    if "tool_calls" not in message:
        return set()
    calls = message["tool_calls"]
    require(isinstance(calls, list), f"Invalid type for '{where}.tool_calls': expected an array of objects.")
    require(calls, f"Invalid '{where}.tool_calls': empty array. Expected an array with minimum length 1.")
    ids: set[str] = set()
    for index, call in enumerate(calls):
        place = f"{where}.tool_calls[{index}]"
        require(
            isinstance(call, dict) and call.get("type") == "function", f"Invalid value for '{place}.type'."
        )
        require(isinstance(call.get("id"), str) and call["id"], f"Missing required parameter: '{place}.id'.")
        require(call["id"] not in ids, f"Duplicate value for 'tool_call_id' of '{call['id']}' in {place}")
        ids.add(call["id"])
        function = call.get("function")
        require(isinstance(function, dict), f"Missing required parameter: '{place}.function'.")
        assert isinstance(function, dict)
        _check_name(function.get("name"), f"{place}.function.name")
        require(
            isinstance(function.get("arguments"), str),
            f"Invalid type for '{place}.function.arguments': expected a string.",
        )
    return ids


def _check_result(message: dict[str, Any], where: str, waiting: set[str]) -> None:
    _check_keys(message, ("role", "content", "tool_call_id"), where)
    call_id = message.get("tool_call_id")
    require(isinstance(call_id, str), f"Missing required parameter: '{where}.tool_call_id'.")
    require(
        call_id in waiting,
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
        f"'tool_calls'. ({where}, '{call_id}')",
    )
    _check_content(message.get("content"), where, may_be_empty=True)
