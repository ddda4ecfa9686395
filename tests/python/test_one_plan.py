# SPDX-License-Identifier: Apache-2.0
"""A decoder compiles to one plan. A conversation of ten turns, `generate --requests`, `serve`, the engine of this package and a program
in C give equal texts with the same file."""
import json
import shutil
import subprocess
import urllib.request

import pytest
from conftest import ROOT, SINTER
from test_serve import serving

import pysinter

TURNS, TOKENS, CONTEXT, END = 10, 6, 64, 95
PROGRAM = """
#include <sinter/sinter_c.h>
#include <stdio.h>
#include <stdlib.h>

static void take(void* user, const sinter_generation_output* output) {
  size_t i;
  (void)user;
  for (i = 0; i < output->token_count; ++i) printf("%d ", output->tokens[i]);
}

/* PLAN STOP_TOKEN MAX_TOKENS ID.. */
int main(int count, char** words) {
  sinter_plan* plan = NULL;
  sinter_engine* engine = NULL;
  int32_t ids[256], stop = atoi(words[2]);
  sinter_generation_request request = {sizeof request};
  for (int i = 4; i < count; ++i) ids[request.prompt_count++] = atoi(words[i]);
  request.prompt = ids;
  request.max_tokens = atoi(words[3]);
  request.stop_tokens = &stop;
  request.stop_token_count = 1;
  if (sinter_plan_load(words[1], &plan) || sinter_engine_create(plan, NULL, &engine) ||
      sinter_engine_submit(engine, &request, take, NULL, NULL) || sinter_engine_drain(engine))
    fprintf(stderr, "%s\\n", sinter_last_error());
  sinter_engine_free(engine);
  sinter_plan_free(plan);
  return 0;
}
"""


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def generate(folder, *words, verb="generate", **options):
    return json.loads(run(SINTER, verb, folder / "plan", "--tokenizer", folder / "tokenizer.json", f"--max-tokens={TOKENS}",
                          "--json", *words, **options))


@pytest.fixture(scope="module")
def conversation(tmp_path_factory):
    """The folder of the plan, and of each turn the prompt and what the conversation answered. Its template shows the last two
    messages, so that each answer depends on the one before."""
    folder = tmp_path_factory.mktemp("one_plan")
    run(SINTER, "compile", ROOT / "models/tiny/decoder.onnx", "-o", folder / "plan", "--target=cpu")
    tokenizer = json.loads((ROOT / "tests/tools/goldens/tokenizers.json").read_text())[0]["tokenizer"]
    tokenizer["model"].update(vocab={**{chr(33 + i): i for i in range(94)}, "\u0120": 94}, merges=[])
    tokenizer["added_tokens"] = [{"id": END, "content": "<e>", "special": True, "single_word": False, "lstrip": False, "rstrip": False,
                                  "normalized": False}]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": (
        "{% for m in messages %}{% if loop.index0 >= messages|length - 2 %}{{ m.content }};{% endif %}{% endfor %}")}))
    questions = [f"why {i}" for i in range(TURNS)]
    turns = generate(folder, f"--context={CONTEXT}", verb="chat", input="\n".join(questions) + "\n")["turns"]
    assert len(turns) == TURNS
    prompts = [f"{questions[0]};"] + [f"{turns[i - 1]['text']};{questions[i]};" for i in range(1, TURNS)]
    assert len({tuple(turn["tokens"]) for turn in turns}) > 1
    return folder, list(zip(prompts, turns))


def test_single_texts_and_many_requests(conversation):
    folder, turns = conversation
    lines = "\n".join(json.dumps({"prompt": prompt}) for prompt, _ in turns)
    (folder / "requests").write_text(lines + "\n")
    answers = generate(folder, "--requests", folder / "requests")["answers"]
    assert [answer["tokens"] for answer in answers] == [turn["tokens"] for _, turn in turns]
    for prompt, turn in turns[::4]:
        assert generate(folder, "--prompt", prompt, "--no-rates")["tokens"] == turn["tokens"]


def test_the_server(conversation):
    folder, turns = conversation
    with serving(folder / "plan", "--tokenizer", folder / "tokenizer.json") as (_, address):
        for prompt, turn in turns:
            body = {"prompt": prompt, "max_tokens": TOKENS, "temperature": 0, "return_token_ids": True}
            request = urllib.request.Request(f"{address}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
            with urllib.request.urlopen(request) as answer:
                choice = json.load(answer)["choices"][0]
            assert choice["token_ids"] == turn["tokens"] and choice["text"] == turn["text"]


def test_this_package(conversation):
    tokenizers = pytest.importorskip("tokenizers")
    folder, turns = conversation
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    with pysinter.Engine(folder / "plan", tokenizer=tokenizer) as engine:
        texts = engine.generate([prompt for prompt, _ in turns], max_tokens=TOKENS, stop_tokens=[END])
    for text, (_, turn) in zip(texts, turns):
        assert text.tokens == turn["tokens"] and text.text == turn["text"]


def test_a_program_in_c(conversation):
    tokenizers = pytest.importorskip("tokenizers")
    library = next(iter(sorted((ROOT / "build").glob("libsinter.so*"))), None)
    compiler = shutil.which("cc")
    if library is None or compiler is None:
        pytest.skip("build/libsinter.so, which tools/build makes, and a C compiler are needed")
    folder, turns = conversation
    (folder / "one.c").write_text(PROGRAM)
    run(compiler, "-std=c11", "-I", ROOT / "runtime/include", folder / "one.c", library, f"-Wl,-rpath,{library.parent}", "-o", folder / "one")
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    for prompt, turn in turns:
        said = run(folder / "one", folder / "plan", END, TOKENS, *tokenizer.encode(prompt).ids)
        assert [int(token) for token in said.split()] == turn["tokens"]
