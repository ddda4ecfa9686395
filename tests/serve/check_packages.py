#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What packages of clients do with the server, as their users call them: OpenAI's, LangChain's and LiteLLM's, in their default settings.

  check_packages.py --sinter build/bin/sinter [--only openai]

Serves a tiny decoder by a plan of many sequences, a tiny BERT and a tiny Whisper model on the CPU. Texts of random weights say nothing, so
calls of tools and structured texts are asked for by constraint. Needs the packages of requirements-clients.txt; those of LangChain and
LiteLLM are left out with a note where they are not installed. Prints a line for each call; exit code 0 if all hold.
"""
import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Literal

import openai
from pydantic import BaseModel
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from check_clients import ROOT, serving, word_pieces

TINY = ROOT / "models" / "tiny"
GOLDENS = ROOT / "tests" / "tools" / "goldens"
# Tokens of many characters: a call of a tool fits into the 64 positions that the model has.
LONG = ['{"name": "look", "arguments": ', '{"name": "look", "parameters": ', "<tool_call>\n", "\n</tool_call>", "}\n</tool_call>", ": ", ", "]
HI = [{"role": "user", "content": "Hi"}]


class Thing(BaseModel):
    """What structured texts are."""
    on: bool
    mode: Literal["x", "y"]


LOOK = {"name": "look", "description": "Looks.", "parameters": Thing.model_json_schema()}
TOOL = {"type": "function", "function": LOOK}


def compact(path):
    """Characters without blanks, so that JSON has none but between its parts, and LONG."""
    alphabet = [chr(c) for c in range(ord("!"), ord("~") + 1)]
    # What only LONG goes on with shall not come alone.
    for unused in ":,<#$%&"[:len(LONG)]:
        alphabet.remove(unused)
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet + LONG)}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer.add_tokens(LONG)
    tokenizer.add_special_tokens(["<end>"])
    tokenizer.save(str(path))


@contextlib.contextmanager
def served(sinter, folder):
    """The port of a server of all models."""
    def plan(model, *options):
        subprocess.run([sinter, "compile", TINY / f"{model}.onnx", "-o", folder / f"{model}.plan", "--target=cpu", "--quiet", *options],
                       check=True)
        return f"{folder / model}.plan"
    for name in ("tiny", "bert"):
        (folder / name).mkdir()
    compact(folder / "tiny" / "tokenizer.json")
    word_pieces(folder / "bert" / "tokenizer.json")
    (folder / "chat.jinja").write_text("{# <tool_call> #}{{ messages[-1].content }}")
    with serving(sinter, f"tiny={plan('decoder', '--serve=block=4,sequences=8,positions=64')}", f"bert={plan('bert')}",
                 f"whisper={plan('speech_decoder')}", f"--encoder=whisper={plan('speech_encoder')}", "--cache-memory=1M",
                 f"--tokenizer=tiny={folder / 'tiny' / 'tokenizer.json'}", f"--tokenizer=bert={folder / 'bert' / 'tokenizer.json'}",
                 f"--tokenizer=whisper={GOLDENS / 'speech_tokenizer.json'}", f"--chat-template=tiny={folder / 'chat.jinja'}") as (_, port):
        yield port


def openai_calls(url):
    """Names, and what is called."""
    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)

    def models_():
        assert {model.id for model in client.models.list()} == {"tiny", "bert", "whisper"}
        assert client.models.retrieve("tiny").id == "tiny"

    def completion():
        answer = client.completions.create(model="tiny", prompt=["Hi", "Ho"], n=2, logprobs=2, presence_penalty=0.5,
                                           frequency_penalty=-0.5, logit_bias={"3": 1}, seed=4, stop=["zzzz"], user="me", best_of=2)
        assert len(answer.choices) == 4 and answer.usage.prompt_tokens == 4
        pieces = list(client.completions.create(model="tiny", prompt="Hi", stream=True, stream_options={"include_usage": True}))
        assert pieces[-1].usage.completion_tokens > 0

    def chat():
        answer = client.chat.completions.create(model="tiny", messages=HI)
        assert answer.choices[0].finish_reason in ("stop", "length") and answer.choices[0].message.role == "assistant"
        answer = client.chat.completions.create(
            model="tiny", messages=[{"role": "developer", "content": "be"}, *HI], max_completion_tokens=5, logprobs=True, top_logprobs=3,
            reasoning_effort="low", service_tier="auto", store=False, parallel_tool_calls=True, metadata={"a": "b"}, verbosity="low",
            temperature=0.5, top_p=0.9, n=2, seed=1, modalities=["text"], prompt_cache_key="k", safety_identifier="s")
        assert len(answer.choices) == 2 and len(answer.choices[0].logprobs.content[0].top_logprobs) >= 3

    def chat_stream():
        pieces = list(client.chat.completions.create(model="tiny", messages=HI, stream=True, stream_options={"include_usage": True}))
        assert pieces[0].choices[0].delta.role == "assistant" and pieces[-1].usage.total_tokens > 0
        with client.chat.completions.stream(model="tiny", messages=HI, response_format=Thing) as stream:  # it wants a text that ends
            text = "".join(event.delta for event in stream if event.type == "content.delta")
            assert text == stream.get_final_completion().choices[0].message.content and Thing.model_validate_json(text)

    def chat_tools():
        for choice in ("required", {"type": "function", "function": {"name": "look"}}):
            answer = client.chat.completions.create(model="tiny", messages=HI, tools=[TOOL], tool_choice=choice)
            call = answer.choices[0].message.tool_calls[0]
            assert answer.choices[0].finish_reason == "tool_calls" and Thing.model_validate_json(call.function.arguments)
            again = [*HI, answer.choices[0].message.model_dump(exclude_none=True),
                     {"role": "tool", "tool_call_id": call.id, "content": "done"}]
            assert client.chat.completions.create(model="tiny", messages=again, tools=[TOOL]).choices
        calls = []
        for piece in client.chat.completions.create(model="tiny", messages=HI, tools=[TOOL], tool_choice="required", stream=True):
            calls += piece.choices[0].delta.tool_calls or []
        assert Thing.model_validate_json("".join(call.function.arguments for call in calls))
        strict = openai.pydantic_function_tool(Thing, name="look")
        parsed = client.chat.completions.parse(model="tiny", messages=HI, tools=[strict], tool_choice="required")
        assert isinstance(parsed.choices[0].message.tool_calls[0].function.parsed_arguments, Thing)

    def chat_parse():
        assert isinstance(client.chat.completions.parse(model="tiny", messages=HI, response_format=Thing).choices[0].message.parsed, Thing)

    def responses():
        answer = client.responses.create(model="tiny", input="Hi", instructions="be")
        assert answer.status in ("completed", "incomplete") and answer.output_text == answer.output[0].content[0].text
        events = list(client.responses.create(model="tiny", input=HI, stream=True, max_output_tokens=9))
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == events[-1].response.output_text
        with client.responses.stream(model="tiny", input="Hi", text_format=Thing) as stream:  # it wants a text that ends
            list(stream)
            assert isinstance(stream.get_final_response().output_parsed, Thing)

    def responses_tools():
        answer = client.responses.create(model="tiny", input="Hi", tools=[{"type": "function", **LOOK}], tool_choice="required")
        call = answer.output[0]
        assert call.type == "function_call" and Thing.model_validate_json(call.arguments)
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "done"}
        assert client.responses.create(model="tiny", input=[*HI, call, output]).output
        kinds = [event.type for event in client.responses.create(
            model="tiny", input="Hi", tools=[{"type": "function", **LOOK}], tool_choice="required", stream=True)]
        assert "response.function_call_arguments.done" in kinds and kinds[-1] == "response.completed"

    def responses_parse():
        assert isinstance(client.responses.parse(model="tiny", input="Hi", text_format=Thing).output_parsed, Thing)

    def embeddings():
        assert len(client.embeddings.create(model="bert", input=["the cat", "a"]).data[1].embedding) == 32

    def transcriptions():
        with (GOLDENS / "speech.wav").open("rb") as file:
            assert client.audio.transcriptions.create(model="whisper", file=file).text is not None
        sound = ("speech.wav", (GOLDENS / "speech.wav").read_bytes())
        verbose = client.audio.transcriptions.create(model="whisper", file=sound, response_format="verbose_json", language="de",
                                                     timestamp_granularities=["segment"])
        assert verbose.language == "de" and verbose.segments is not None
        for kind in ("text", "srt", "vtt"):
            assert isinstance(client.audio.transcriptions.create(model="whisper", file=sound, response_format=kind), str)
        assert client.audio.translations.create(model="whisper", file=sound).text is not None

    def refusals():
        for call in (lambda: client.responses.create(model="tiny", input="Hi", previous_response_id="resp_1"),
                     lambda: client.chat.completions.create(model="tiny", messages=HI, extra_body={"temprature": 1}),
                     lambda: client.audio.transcriptions.create(model="whisper", file=("a.wav", b"no sound"))):
            try:
                call()
            except openai.BadRequestError as error:
                assert error.body["message"], error
            else:
                raise AssertionError("it was answered")
    return [models_, completion, chat, chat_stream, chat_tools, chat_parse, responses, responses_tools, responses_parse, embeddings,
            transcriptions, refusals]


def langchain_calls(url):
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
    chat = ChatOpenAI(model="tiny", base_url=url, api_key="none")

    @tool
    def look(on: bool, mode: Literal["x", "y"]) -> str:
        """Looks."""
        return f"{on}{mode}"

    def invoke():
        answer = chat.invoke("Hi")
        assert isinstance(answer, AIMessage) and answer.usage_metadata["output_tokens"] > 0

    def stream():
        assert "".join(piece.content for piece in chat.stream("Hi")) is not None

    def tools():
        answer = chat.bind_tools([look], tool_choice="any").invoke("Hi")
        result = look.invoke(answer.tool_calls[0])
        assert isinstance(result, ToolMessage)
        assert chat.bind_tools([look]).invoke([HumanMessage("Hi"), answer, result])

    def structured():
        for method in ("json_schema", "function_calling"):
            assert isinstance(chat.with_structured_output(Thing, method=method).invoke("Hi"), Thing), method

    def responses_api():
        newer = ChatOpenAI(model="tiny", base_url=url, api_key="none", use_responses_api=True)
        assert isinstance(newer.invoke("Hi"), AIMessage)
        assert list(newer.stream("Hi"))
        answer = newer.bind_tools([look], tool_choice="any").invoke("Hi")
        assert newer.bind_tools([look]).invoke([HumanMessage("Hi"), answer, look.invoke(answer.tool_calls[0])])
        assert isinstance(newer.with_structured_output(Thing).invoke("Hi"), Thing)

    def completion():
        # By default it asks for 256 tokens.
        assert isinstance(OpenAI(model="tiny", base_url=url, api_key="none", max_tokens=20).invoke("Hi"), str)

    def embeddings():
        # By default it sends ids of OpenAI's own tokenizers, which are no ids of another model's.
        texts = OpenAIEmbeddings(model="bert", base_url=url, api_key="none", check_embedding_ctx_length=False)
        assert len(texts.embed_documents(["the cat", "a"])) == 2 and len(texts.embed_query("the")) == 32
    return [invoke, stream, tools, structured, responses_api, completion, embeddings]


def litellm_calls(url):
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no download
    import litellm
    to = {"api_base": url, "api_key": "none"}

    def completion():
        answer = litellm.completion(model="openai/tiny", messages=HI, **to)
        assert answer.choices[0].message.role == "assistant" and answer.usage.total_tokens > 0

    def stream():
        assert list(litellm.completion(model="openai/tiny", messages=HI, stream=True, stream_options={"include_usage": True}, **to))

    def tools():
        answer = litellm.completion(model="openai/tiny", messages=HI, tools=[TOOL], tool_choice="required", **to)
        call = answer.choices[0].message.tool_calls[0]
        assert Thing.model_validate_json(call.function.arguments)
        again = [*HI, answer.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "done"}]
        assert litellm.completion(model="openai/tiny", messages=again, tools=[TOOL], **to).choices

    def structured():
        answer = litellm.completion(model="openai/tiny", messages=HI, response_format=Thing, **to)
        assert Thing.model_validate_json(answer.choices[0].message.content)

    def text_completion():
        assert litellm.text_completion(model="text-completion-openai/tiny", prompt="Hi", **to).choices

    def responses():
        assert litellm.responses(model="openai/tiny", input="Hi", **to).output
        assert list(litellm.responses(model="openai/tiny", input="Hi", stream=True, **to))

    def embeddings():
        assert len(litellm.embedding(model="openai/bert", input=["the cat", "a"], **to).data) == 2

    def transcription():
        with (GOLDENS / "speech.wav").open("rb") as file:
            assert litellm.transcription(model="openai/whisper", file=file, **to).text is not None
    return [completion, stream, tools, structured, text_completion, responses, embeddings, transcription]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    packages = {"openai": openai_calls, "langchain": langchain_calls, "litellm": litellm_calls}
    parser.add_argument("--only", choices=packages)
    arguments = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder, served(arguments.sinter, Path(folder)) as port:
        for package, calls_of in packages.items():
            if arguments.only not in (None, package):
                continue
            try:
                calls = calls_of(f"http://127.0.0.1:{port}/v1")
            except ImportError as error:
                print(f"{package}: left out, {error}", flush=True)
                continue
            for call in calls:
                try:
                    call()
                    print(f"{package}: {call.__name__.strip('_')}: ok", flush=True)
                except Exception:  # each call is told
                    failed += 1
                    print(f"{package}: {call.__name__.strip('_')}: FAILED\n{traceback.format_exc()}", flush=True)
    print("ok" if failed == 0 else f"{failed} failed")
    return 0 if failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
