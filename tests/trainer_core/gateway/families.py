"""Tokenizers of the families people train, made small: special tokens and templates, and a few merges."""

from __future__ import annotations

from functools import cache
from typing import Any

_SPECIAL = {
    "chatml": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    "qwen2.5": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    "qwen3": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    "llama3": [
        "<|begin_of_text|>",
        "<|end_of_text|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eom_id|>",
        "<|eot_id|>",
    ],
}
_ADDED = {
    "qwen2.5": ["<tool_call>", "</tool_call>"],
    "qwen3": ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"],
}
_NAMES = {"qwen2.5": "Qwen2.5-0.5B-Instruct", "qwen3": "Qwen3-0.6B", "llama3": "Llama-3.2-1B-Instruct"}
_CHATML = (
    "{%- for m in messages -%}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor -%}"
    "{%- if add_generation_prompt -%}<|im_start|>assistant\n{% endif -%}"
)
_QWEN = """
{%- if tools -%}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content + '\n\n' }}{% endif %}# Tools
{%- for tool in tools %}
{{ tool | tojson }}{% endfor %}<|im_end|>
{% elif messages[0].role == 'system' -%}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif -%}
{%- set ns = namespace(last=-1) -%}
{%- for m in messages -%}
{%- if m.role == 'user' -%}{%- set ns.last = loop.index0 -%}{%- endif -%}
{%- endfor -%}
{%- for m in messages -%}
{%- if m.role == 'assistant' -%}<|im_start|>assistant
{% if m.reasoning_content and loop.index0 > ns.last %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}
<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% elif m.role == 'tool' -%}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' -%}<|im_start|>user{% endif %}
<tool_response>
{{ m.content }}
</tool_response>{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|im_end|>
{% endif -%}
{%- elif m.role != 'system' or not loop.first -%}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}"""
_LLAMA = (
    "{{- '<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n' -}}"
    "{{- 'Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n' -}}"
    "{%- if messages[0].role == 'system' -%}{{ messages[0].content | trim }}{%- endif -%}<|eot_id|>"
    "{%- for m in messages -%}{%- if m.role != 'system' -%}"
    "{{- '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + m.content | trim + '<|eot_id|>' -}}"
    "{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}{%- endif -%}"
)
_TEMPLATES = {"chatml": _CHATML, "qwen2.5": _QWEN, "qwen3": _QWEN, "llama3": _LLAMA}
FAMILIES = tuple(_SPECIAL)


@cache
def family(name: str) -> Any:
    """A byte-level BPE tokenizer with a few hundred merges."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    learned.decoder = decoders.ByteLevel()
    words = "system user assistant tool the answer to the question is think about number one two three four"
    corpus = [words, words.replace(" ", "\n"), '{"name": "search", "arguments": {"query": "word"}}'] * 20
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    learned.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet))
    learned.add_tokens([AddedToken(text, normalized=False) for text in _ADDED.get(name, [])])
    end = "<|eot_id|>" if name == "llama3" else "<|im_end|>"
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=learned,
        eos_token=end,
        pad_token=_SPECIAL[name][0],
        additional_special_tokens=_SPECIAL[name],
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = _TEMPLATES[name]
    tokenizer.name_or_path = f"/models/{_NAMES.get(name, 'some-model')}"
    return tokenizer
