#!/usr/bin/env python3
"""Write chat.json: conversations through chat templates, as Jinja renders them with Hugging Face's options.

  .venv/bin/python tests/tools/goldens/make_chat.py

The templates are written for this, in the forms that models' own have: ChatML, headers with trimmed contents, alternating roles with a
system text in the first one, tools as JSON.
"""
import json
from pathlib import Path

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

TEMPLATES = {
    "chatml": """{%- if messages[0]['role'] != 'system' %}
{{- '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}
{%- endif %}
{% for message in messages %}
{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
""",
    "headers": """{% set loop_messages = messages %}{{ bos_token }}
{%- for message in loop_messages %}
    {%- set content = '<|start|>' + message.role + '<|end|>\\n\\n' + message.content | trim + eos_token %}
    {%- if loop.index0 == 0 and tools is defined and tools %}
        {%- set content = content + 'tools: ' + (tools | length | string) %}
    {%- endif %}
    {{- content }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start|>assistant<|end|>\\n\\n' }}{%- endif %}""",
    "alternating": """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set first = messages[0]['content'] + '\\n\\n' %}
{%- set rest = messages[1:] %}{% else %}{% set first = '' %}{% set rest = messages %}{% endif %}
{%- for message in rest %}
{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('roles must alternate user/assistant/user/assistant/...') }}
{%- endif %}
{%- set role = 'model' if message['role'] == 'assistant' else message['role'] %}
{{- '<turn>' + role + '\\n' + (first if loop.first else '') + message['content'].strip() + '</turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}<turn>model
{% endif %}""",
    "tools": """{%- set ns = namespace(last=-1) %}
{%- for message in messages %}{% if message['role'] == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- for message in messages %}
{%- if message['role'] == 'user' %}
{%- if tools is not none and loop.index0 == ns.last %}[TOOLS]{% for tool in tools %}{{ tool | tojson }}{% if not loop.last %}, {% endif %}{% endfor %}[/TOOLS]{% endif %}
{{- '[INST] ' ~ message['content'] ~ ' [/INST]' }}
{%- elif message.tool_calls is defined and message.tool_calls %}
{{- '[CALLS]' }}{% for call in message.tool_calls %}{{ call.function.name ~ '(' }}{% for key, value in call.function.arguments.items() %}{{ key }}={{ value | tojson }}{{ ', ' if not loop.last }}{% endfor %}){% endfor %}
{%- elif message['role'] in ['tool', 'ipython'] %}
{{- '[RESULT]' + message['content'] | upper + '[/RESULT]' }}
{%- else %}{{ message['content'] + eos_token }}{% endif %}
{%- endfor %}""",
}
CONVERSATIONS = [
    [{"role": "user", "content": "Hello"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "  What is 2 + 2? \n"}],
    [{"role": "user", "content": "Grüße, 世界"}, {"role": "assistant", "content": "Hi {{ not }} <|im_end|>"},
     {"role": "user", "content": "And \"now\" & then?"}],
    [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
]
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Today's <weather>",
                                           "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]
CALLS = [{"role": "user", "content": "Rain in Oslo?"},
         {"role": "assistant", "content": "", "tool_calls": [
             {"type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo", "days": [1, 2.5], "now": True}}}]},
         {"role": "tool", "content": "rain"}, {"role": "assistant", "content": "Yes."}]


def environment():
    def fail(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    result = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    result.globals["raise_exception"] = fail
    result.filters["tojson"] = tojson
    return result


def main():
    jinja, cases = environment(), []
    for name, template in TEMPLATES.items():
        for messages, tools in [(each, None) for each in CONVERSATIONS] + [(CONVERSATIONS[1], TOOLS), (CALLS, TOOLS)]:
            if messages is CALLS and name != "tools":
                continue
            for asks in (True, False):
                case = {"template": name, "bos_token": "<s>", "eos_token": "</s>", "messages": messages, "tools": tools,
                        "add_generation_prompt": asks}
                try:
                    case["text"] = jinja.from_string(template).render(
                        messages=messages, tools=tools, add_generation_prompt=asks, bos_token="<s>", eos_token="</s>")
                except jinja2.exceptions.TemplateError as error:
                    case["error"] = str(error)
                cases.append(case)
    path = Path(__file__).with_name("chat.json")
    path.write_text(json.dumps({"templates": TEMPLATES, "cases": cases}, ensure_ascii=False, indent=1) + "\n")
    print(f"{len(cases)} cases in {path}")


if __name__ == "__main__":
    main()
