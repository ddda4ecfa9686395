# SPDX-License-Identifier: Apache-2.0
"""Models for Triton's repository, and the real server with them: nvidia-pytriton has it, tritonclient asks it."""
import json
import queue
import subprocess
import urllib.request
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import ROOT, SINTER, in_threads, make_counter, make_typed, model_of, value
from onnx import TensorProto, helper

import pysinter
from pysinter.triton import write_model
from pysinter.triton.repository import row_symbol, tensor_config

BERT, DECODER = ROOT / "models/tiny/bert.onnx", ROOT / "models/tiny/decoder.onnx"
GREEDY = json.loads((ROOT / "tests/tools/goldens/greedy.json").read_text())["decoder"]
CONTEXT = 64


@pytest.fixture(scope="module")
def plans(tmp_path_factory, plan, pair):
    """Files by name."""
    folder = tmp_path_factory.mktemp("plans")
    bert = pysinter.compile(BERT, target="cpu")
    decoder = pysinter.compile(DECODER, target="cpu", serve={"block": 4, "sequences": 8, "positions": CONTEXT})
    scalar = model_of([helper.make_node("Add", ["a", "b"], ["sum"])], [value("a", []), value("b", [])], [value("sum", [])])
    wide = model_of([helper.make_node("MatMul", ["a", "b"], ["c"])], [value("a", ["n", 3]), value("b", [3, "n"])],
                    [value("c", ["n", "n"])])
    made = {"mlp": plan, "pair": pair, "bert": bert, "text": decoder,
            "scalar": pysinter.compile(scalar, target="cpu"), "wide": pysinter.compile(wide, target="cpu", dims={"n": (1, 8)}),
            "half": pysinter.compile(make_typed(TensorProto.FLOAT16), target="cpu", dims={"n": (1, 4)}),
            "flag": pysinter.compile(model_of([helper.make_node("Not", ["x"], ["y"])], [value("x", ["n"], TensorProto.BOOL)],
                                            [value("y", ["n"], TensorProto.BOOL)]), target="cpu", dims={"n": (1, 4)})}
    for name, each in made.items():
        each.save(folder / f"{name}.plan")
    return {name: folder / f"{name}.plan" for name in made}


def test_config_of_tensors(plans, tmp_path):
    folder = write_model(plans["pair"], tmp_path / "models", queue_delay_us=500, threads=1)
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*.*")) == ["1/model.plan", "1/model.py", "config.pbtxt"]
    assert (folder / "1/model.plan").read_bytes() == plans["pair"].read_bytes()
    assert (folder / "config.pbtxt").read_text() == f"""\
# Written by `sinter triton` of Sinter {pysinter.__version__}.
name: "pair"
backend: "python"
max_batch_size: 64
input [
  {{ name: "a" data_type: TYPE_FP32 dims: [ 3 ] }},
  {{ name: "b" data_type: TYPE_FP32 dims: [ 3 ] }}
]
output [
  {{ name: "sum" data_type: TYPE_FP32 dims: [ 3 ] }},
  {{ name: "difference" data_type: TYPE_FP32 dims: [ 3 ] }}
]
dynamic_batching {{
  max_queue_delay_microseconds: 500
}}
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
parameters [
  {{ key: "plan" value: {{ string_value: "model.plan" }} }},
  {{ key: "threads" value: {{ string_value: "1" }} }}
]
"""


def test_what_is_no_batch(plans, tmp_path):
    config = (write_model(plans["wide"], tmp_path) / "config.pbtxt").read_text()  # [n, n]: rows of two requests would meet
    assert "max_batch_size: 0" in config and "dynamic_batching" not in config and "dims: [ -1, 3 ]" in config
    config = (write_model(plans["mlp"], tmp_path, max_batch=0) / "config.pbtxt").read_text()
    assert "max_batch_size: 0" in config and "dims: [ -1, 8 ]" in config
    assert "max_batch_size: 16" in (write_model(plans["mlp"], tmp_path, name="b", max_batch=16) / "config.pbtxt").read_text()
    with pytest.raises(pysinter.UsageError, match="max_batch=65.* 1 to 64"):
        write_model(plans["mlp"], tmp_path, name="c", max_batch=65)
    with pytest.raises(pysinter.UsageError, match="first dimension"):
        write_model(plans["wide"], tmp_path, name="c", max_batch=4)


def test_which_rows_may_be_one_run():
    def symbol(*shapes, is_read_by_host=False):
        *inputs, output = [pysinter.Binding("t", "float32", tuple(pysinter.Dim(*dim) for dim in shape), False, is_read_by_host)
                           for shape in shapes]
        return row_symbol(SimpleNamespace(inputs=inputs, outputs=[output]))
    n, twice, k, four = ("n", 1, 8), ("2*n", 2, 16), ("k", 1, 8), ("4", 4, 4)
    assert symbol([n, four], [n, k], [n]) == "n" and symbol([twice, four], [twice]) == "2*n"
    for shapes in ([[n], [k], [n]], [[n], []], [[four], [four]], [[n, k], [n, n]], [[twice, n], [twice]], [[n], [k, n]]):
        assert symbol(*shapes) is None, shapes
    assert symbol([n], [n], is_read_by_host=True) is None


def test_config_of_a_gpu():
    n, eight = pysinter.Dim("n", 1, 65536), pysinter.Dim("8", 8, 8)
    tensors = [pysinter.Binding(name, "float16", (n, eight), False, False) for name in "xy"]
    plan = SimpleNamespace(target="cuda", states=(), inputs=tensors[:1], outputs=tensors[1:])
    config = tensor_config(plan, "gpu", {"plan": "model.plan"}, max_batch=None, queue_delay_us=1, instances=2, gpus=[0, 1])
    for line in ("max_batch_size: 64", '  { name: "x" data_type: TYPE_FP16 dims: [ 8 ] }',
                 "  preferred_batch_size: [ 2, 4, 8, 16, 32, 64 ]", "instance_group [ { kind: KIND_GPU count: 2 gpus: [ 0, 1 ] } ]"):
        assert line in config.splitlines(), config


def test_what_is_refused(plans, tmp_path):
    counter = tmp_path / "counter.plan"
    pysinter.compile(make_counter(), str(counter), target="cpu", states={"total": "next"})
    wide = tmp_path / "wide.plan"
    pysinter.compile(make_typed(TensorProto.BFLOAT16), str(wide), target="cpu", dims={"n": (1, 4)})
    for error, match, path, options in (
            (pysinter.UnsupportedError, "total.*serve=True", counter, {}), (pysinter.UnsupportedError, "'x' is bfloat16", wide, {}),
            (pysinter.UsageError, "name", plans["mlp"], {"name": "a/b"}), (pysinter.UsageError, "gpus", plans["mlp"], {"gpus": [0]}),
            (pysinter.UsageError, "tokenizer", plans["mlp"], {"tokenizer": __file__}),
            (pysinter.UsageError, "max_batch", plans["text"], {"max_batch": 4}),
            (pysinter.UsageError, "nothing.json", plans["text"], {"tokenizer": "nothing.json"}),
            (pysinter.UsageError, "instances", plans["mlp"], {"instances": 0}),
            (pysinter.InvalidPlanError, "test_triton", __file__, {})):
        with pytest.raises(error, match=match):
            write_model(path, tmp_path / "models", **options)
    assert not (tmp_path / "models").exists() or not list((tmp_path / "models").iterdir())


def test_the_command(plans, tmp_path):
    words = [SINTER, "triton", plans["mlp"], "-o", tmp_path / "models", "--no-copy"]
    done = subprocess.run([*words, "--json"], capture_output=True, text=True, check=True)
    folder = tmp_path / "models" / "mlp"
    assert json.loads(done.stdout) == {"folder": str(folder)}
    assert str(plans["mlp"]) in (folder / "config.pbtxt").read_text() and not (folder / "1/model.plan").exists()
    again = subprocess.run(words, capture_output=True, text=True)
    assert again.returncode == 2 and "--replace" in again.stderr
    assert subprocess.run([*words, "--replace"], capture_output=True).returncode == 0
    wrong = subprocess.run([*words, "--gpus=a"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "--gpus" in wrong.stderr


@pytest.fixture(scope="module")
def server(request, plans, tmp_path_factory):
    if not request.config.getoption("--servers"):
        pytest.skip("asked for with --servers")
    from triton_server import Server
    folder = tmp_path_factory.mktemp("triton")
    repository = folder / "models"
    for name, path in plans.items():
        options = {"cache_bytes": 1 << 20} if name == "text" else {"queue_delay_us": 20_000}
        write_model(path, repository, threads=1, **options)
    tokenizer = make_tokenizer(folder / "tokenizer.json")
    write_model(plans["text"], repository, name="words", tokenizer=tokenizer, cache_bytes=1 << 20, copy=False)
    server = Server(folder, repository)
    server.repository, server.tokenizer = repository, tokenizer
    yield server
    assert server.stop() == 0, server.log.read_text()[-2000:]


def make_tokenizer(path):
    """Of characters whose ids the tiny decoder has."""
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())[:96]
    tokenizer = tokenizers.Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer.save(str(path))
    return path


@pytest.fixture(params=["http", "grpc"])
def connect(request, server):
    """Makes a client."""
    if request.param == "http":
        import tritonclient.http as module
        address = f"127.0.0.1:{server.http}"
    else:
        import tritonclient.grpc as module
        address = f"127.0.0.1:{server.grpc}"

    def make():
        client = module.InferenceServerClient(address)
        client.module = module
        return client
    return make


@pytest.fixture
def client(connect):
    with connect() as client:
        yield client


def tensors_of(module, inputs):
    from tritonclient.utils import np_to_triton_dtype
    tensors = []
    for name, array in inputs.items():
        tensors.append(module.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)))
        tensors[-1].set_data_from_numpy(array)
    return tensors


def ask(client, model, inputs, outputs=None, **options):
    wanted = None if outputs is None else [client.module.InferRequestedOutput(name) for name in outputs]
    return client.infer(model, tensors_of(client.module, inputs), outputs=wanted, **options)


def refusal(call, *args, **options):
    from tritonclient.utils import InferenceServerException
    with pytest.raises(InferenceServerException) as error:
        call(*args, **options)
    return str(error.value)


def counts(client, model):
    """Of a model: requests, rows, runs."""
    found = client.get_inference_statistics(model)
    if not isinstance(found, dict):
        from google.protobuf.json_format import MessageToDict
        found = MessageToDict(found, preserving_proto_field_name=True)
    (each,) = found["model_stats"]
    return np.array([int(each["inference_stats"]["success"].get("count", 0)), int(each.get("inference_count", 0)),
                     int(each.get("execution_count", 0))])


def test_many_clients_get_their_answers_in_batches(connect, client, plan):
    client.load_model("mlp")
    before, each = counts(client, "mlp"), 20

    def run(number):
        r = np.random.default_rng(number)
        with connect() as own:
            for i in range(each):
                x = r.standard_normal((1 + (number + i) % 3, 8), np.float32)
                found = ask(own, "mlp", {"x": x}).as_numpy("y")
                np.testing.assert_allclose(found, plan(x), rtol=1e-4, atol=1e-5)

    in_threads(8, run)
    requests, rows, runs = counts(client, "mlp") - before
    assert requests == 8 * each and runs < requests < rows, (requests, rows, runs)


def test_rows_of_other_lengths_are_other_runs(connect, client, plans):
    client.load_model("bert")
    bert = pysinter.load(plans["bert"])
    names, (output,) = [each.name for each in bert.inputs], [each.name for each in bert.outputs]

    def run(number):
        r = np.random.default_rng(number)
        with connect() as own:
            for i in range(10):
                shape = (1 + i % 2, 4 + (number + i) % 3)
                inputs = {name: np.ones(shape, np.int64) if "mask" in name else r.integers(0, 2 if "type" in name else 60, shape)
                          for name in names}
                found = ask(own, "bert", inputs, outputs=[output])
                np.testing.assert_allclose(found.as_numpy(output), bert(**inputs), rtol=1e-4, atol=1e-5)
                short = {name: array[:, :-1] if name == names[0] else array for name, array in inputs.items()}
                assert names[0] in refusal(ask, own, "bert", short) or names[1] in refusal(ask, own, "bert", short)
    in_threads(4, run)


def test_types_scalars_and_single_runs(client, plans):
    r = np.random.default_rng(0)
    for name, inputs in (("pair", {"a": r.random((2, 3), np.float32), "b": r.random((2, 3), np.float32)}),
                         ("half", {"x": r.random((3, 4)).astype(np.float16)}), ("flag", {"x": np.array([[True], [False]])[:, 0]}),
                         ("wide", {"a": r.random((4, 3), np.float32), "b": r.random((3, 4), np.float32)}),
                         ("scalar", {"a": np.array(1.5, np.float32), "b": np.array(2, np.float32)})):
        client.load_model(name)
        plan = pysinter.load(plans[name])
        wanted = plan(**inputs)
        is_batch = name == "flag"  # [rows] of the plan's is [rows, 1] to Triton
        sent = {key: array.reshape(1) if name == "scalar" else array.reshape(-1, 1) if is_batch else array
                for key, array in inputs.items()}
        found = ask(client, name, sent)
        for binding, array in zip(plan.outputs, wanted if isinstance(wanted, tuple) else (wanted,)):
            np.testing.assert_array_equal(found.as_numpy(binding.name).reshape(array.shape), array)


def test_requests_that_do_not_fit(client):
    client.load_model("mlp")
    x = np.ones((2, 8), np.float32)
    assert "x" in refusal(ask, client, "mlp", {"x": x.astype(np.float64)})
    assert "x" in refusal(ask, client, "mlp", {"x": x[:, :7]})
    assert "64" in refusal(ask, client, "mlp", {"x": np.ones((65, 8), np.float32)})
    assert "z" in refusal(ask, client, "mlp", {"z": x})
    assert "nothing" in refusal(ask, client, "mlp", {"x": x}, outputs=["nothing"])
    assert ask(client, "mlp", {"x": x}).as_numpy("y").shape == (2, 4)


def test_models_that_do_not_load(server, client, plans):
    def broken(name, *changes, contents=None):
        folder = write_model(plans["mlp"], server.repository, name=name, replace=True)
        config = (folder / "config.pbtxt").read_text()
        for old, new in changes:
            assert old in config
            config = config.replace(old, new)
        (folder / "config.pbtxt").write_text(config)
        if contents is not None:
            (folder / "1/model.plan").write_bytes(contents)
        return refusal(client.load_model, name)

    whole = plans["mlp"].read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 255
    for contents in (bytes(flipped), whole[:100], b"", b"no plan"):
        said = broken("corrupt", contents=contents)
        assert "model 'corrupt'" in said and "model.plan" in said, said
    assert "missing.plan" in broken("missing", ('"model.plan"', '"missing.plan"'))
    assert "KIND_CPU" in broken("kind", ("KIND_CPU", "KIND_MODEL"))
    assert "'plans'" in broken("parameter", ('"plan"', '"plans"'))
    assert "write it anew" in broken("input", ('name: "x"', 'name: "z"'))
    assert not client.is_model_ready("corrupt")


class Stream:
    """What a gRPC stream has for each request, by its id."""

    def __init__(self, server, model):
        import tritonclient.grpc as module
        self.module, self.model, self.parts = module, model, queue.Queue()
        self.client = module.InferenceServerClient(f"127.0.0.1:{server.grpc}")
        self.client.start_stream(lambda result, error: self.parts.put((result, error)))

    def send(self, number, *, streams=True, **inputs):
        sampling = inputs.pop("sampling", None)
        inputs = {name: np.array([text], dtype=np.object_) if isinstance(text, str) else np.array(text, np.int64)
                  for name, text in inputs.items()}
        if sampling is not None:
            inputs["sampling_parameters"] = np.array([sampling if isinstance(sampling, str) else json.dumps(sampling)], np.object_)
        if streams:
            inputs["stream"] = np.array([True])
        self.client.async_stream_infer(self.model, tensors_of(self.module, inputs), request_id=str(number))

    def wait(self, count):
        """Pieces of `count` requests: (text, tokens, finish)."""
        pieces, ended = {}, 0
        while ended < count:
            result, error = self.parts.get(timeout=60)
            if error is not None:
                raise error
            answer = result.get_response()
            finish = result.as_numpy("finish_reason")[0].decode()
            pieces.setdefault(int(answer.id), []).append(
                (result.as_numpy("text_output")[0].decode(), result.as_numpy("token_ids").tolist(), finish))
            ended += finish != "none"
        return pieces

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.stop_stream()
        self.client.close()


def test_text_comes_in_pieces(server):
    import tritonclient.http as module
    with module.InferenceServerClient(f"127.0.0.1:{server.http}") as client:
        client.load_model("text")
    length = len(GREEDY[0]["tokens"])

    def run(number):
        with Stream(server, "text") as stream:
            for i in range(6):
                stream.send(i, input_ids=GREEDY[(number + i) % len(GREEDY)]["prompt"], sampling={"max_tokens": length},
                            streams=i % 2 == 0)
            for i, pieces in stream.wait(6).items():
                tokens = [token for _, some, _ in pieces for token in some]
                assert tokens == GREEDY[(number + i) % len(GREEDY)]["tokens"], (number, i)
                assert pieces[-1][2] == "length" and (len(pieces) > 1) == (i % 2 == 0), pieces
    in_threads(4, run)


def test_text_with_a_tokenizer(server):
    import tokenizers
    import tritonclient.http as module
    with module.InferenceServerClient(f"127.0.0.1:{server.http}") as client:
        client.load_model("words")
    with Stream(server, "words") as stream:
        stream.send(1, text_input="AB", sampling={"max_tokens": 8, "seed": 3})
        ((pieces,), ) = (stream.wait(1).values(),)
        tokens = [token for _, some, _ in pieces for token in some]
        text = "".join(text for text, _, _ in pieces)
        assert text == tokenizers.Tokenizer.from_file(str(server.tokenizer)).decode(tokens) and len(tokens) == 8
    # The generate extension, whole and as server-sent events.
    body = {"text_input": "AB", "parameters": {"max_tokens": 8, "seed": 3}}
    for path, streams in (("generate", False), ("generate_stream", True)):
        request = urllib.request.Request(f"http://127.0.0.1:{server.http}/v2/models/words/{path}",
                                         json.dumps({**body, "stream": streams}).encode())
        with urllib.request.urlopen(request, timeout=60) as answer:
            lines = [line.removeprefix(b"data: ") for line in answer.read().splitlines() if line]
        parts = [json.loads(line) for line in lines]
        assert "".join(part["text_output"] for part in parts) == text and (len(parts) > 1) == streams


def test_what_is_wrong_with_a_text(server):
    import tritonclient.http as module
    with module.InferenceServerClient(f"127.0.0.1:{server.http}") as client:
        client.load_model("text")
    from tritonclient.utils import InferenceServerException
    for inputs, said in (({"input_ids": [1, 2], "sampling": {"warmth": 1}}, "warmth"), ({"input_ids": [1000]}, "1000"),
                         ({"input_ids": [1], "sampling": {"temperature": -1}}, "temperature"),
                         ({"input_ids": [1], "sampling": {"temperature": "hot"}}, "temperature"),
                         ({"input_ids": [1], "sampling": "{"}, "sampling_parameters"), ({"text_input": "A"}, "tokenizer"),
                         ({"input_ids": [1], "text_input": "A"}, "one of"), ({}, "one of"),
                         ({"input_ids": [1], "sampling": {"max_tokens": 10 * CONTEXT}}, "max_tokens")):
        with Stream(server, "text") as stream, pytest.raises(InferenceServerException, match=said):
            stream.send(1, **inputs)
            stream.wait(1)


def test_a_client_that_leaves_ends_its_text(server):
    import tritonclient.http as module
    with module.InferenceServerClient(f"127.0.0.1:{server.http}") as client:
        client.load_model("text")
    for _ in range(20):  # far more texts than run at once
        stream = Stream(server, "text")
        for i in range(8):
            stream.send(i, input_ids=[1, 2], sampling={"max_tokens": CONTEXT - 4})
        stream.parts.get(timeout=60)
        stream.client.stop_stream(cancel_requests=True)
        stream.client.close()
    with Stream(server, "text") as stream:
        stream.send(1, input_ids=GREEDY[0]["prompt"], sampling={"max_tokens": 3})
        ((pieces,), ) = (stream.wait(1).values(),)
        assert [token for _, some, _ in pieces for token in some] == GREEDY[0]["tokens"][:3]
