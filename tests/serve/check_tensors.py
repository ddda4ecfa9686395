#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tensors over HTTP and gRPC, as NVIDIA's tritonclient sends them, against ONNX Runtime.

  check_tensors.py --sinter build/bin/sinter

Serves a tiny BERT on the CPU. Exit code 0 if all holds.
"""
import argparse
import contextlib
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

import numpy as np
import onnxruntime
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
from check_clients import started
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "tiny" / "bert.onnx"


@contextlib.contextmanager
def serving(sinter, plan, *options):
    """The process, and the ports of HTTP and of gRPC."""
    with started(sinter, f"bert={plan}", "--grpc-port=0", *options) as (process, said):
        yield process, said["port"], said["grpc_port"]


def sample(session, rows, columns, seed):
    draw = np.random.default_rng(seed)
    made = {}
    for value in session.get_inputs():
        shape = [rows, columns][:len(value.shape)]
        made[value.name] = np.ones(shape, np.int64) if "mask" in value.name else draw.integers(0, 2 if "type" in value.name else 60, shape)
    return made


def ask(module, client, inputs, outputs=None, **options):
    """By `module`, one of tritonclient's."""
    tensors = []
    for name, value in inputs.items():
        tensor = module.InferInput(name, value.shape, np_to_triton_dtype(value.dtype))
        tensor.set_data_from_numpy(value)
        tensors.append(tensor)
    wanted = None if outputs is None else [module.InferRequestedOutput(name) for name in outputs]
    return client.infer("bert", tensors, outputs=wanted, **options)


def refusal(call):
    try:
        call()
    except InferenceServerException as error:
        return f"{error.status()} {error.message()}"
    raise AssertionError("accepted")


def check_answers(module, client, session):
    names = [value.name for value in session.get_outputs()]
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("bert")
    for rows, columns in ((1, 7), (3, 16)):
        inputs = sample(session, rows, columns, rows)
        expected = session.run(None, inputs)
        found = ask(module, client, inputs, request_id="7")
        for name, value in zip(names, expected):
            np.testing.assert_allclose(found.as_numpy(name), value, rtol=1e-4, atol=1e-5)
    one = ask(module, client, inputs, outputs=names[-1:])
    np.testing.assert_allclose(one.as_numpy(names[-1]), expected[-1], rtol=1e-4, atol=1e-5)
    short = {name: value[:, :-1] if name == next(iter(inputs)) else value for name, value in inputs.items()}
    assert "bert" in refusal(lambda: client.infer("other", [])) or "other" in refusal(lambda: client.infer("other", []))
    assert refusal(lambda: ask(module, client, short)), "sizes that differ"
    assert "nothing" in refusal(lambda: ask(module, client, inputs, outputs=["nothing"]))
    assert "twice" in refusal(lambda: ask(module, client, inputs, outputs=names[:1] * 2))
    wrong = {name: value.astype(np.float32) for name, value in inputs.items()}
    assert next(iter(inputs)) in refusal(lambda: ask(module, client, wrong))


def check_grpc(client, session, port):
    metadata = client.get_model_metadata("bert")
    assert [each.name for each in metadata.inputs] == [each.name for each in session.get_inputs()], metadata
    assert all(each.datatype == "INT64" for each in metadata.inputs), metadata
    assert client.get_server_metadata().name == "sinter"
    assert [each.name for each in client.get_model_repository_index().models] == ["bert"]
    assert "NOT_FOUND" in refusal(lambda: client.get_model_metadata("other"))
    assert "NOT_FOUND" in refusal(lambda: client.get_model_metadata("bert", model_version="2"))
    inputs = sample(session, 2, 5, 0)
    # Numbers in the protocol's own fields, and raw ones that are too few.
    import grpc
    from tritonclient.grpc import service_pb2, service_pb2_grpc
    stub = service_pb2_grpc.GRPCInferenceServiceStub(grpc.insecure_channel(f"127.0.0.1:{port}"))
    request = service_pb2.ModelInferRequest(model_name="bert", id="a")
    for name, value in inputs.items():
        tensor = request.inputs.add(name=name, datatype="INT64", shape=value.shape)
        tensor.contents.int64_contents.extend(value.ravel().tolist())
    answer = stub.ModelInfer(request)
    assert answer.id == "a" and answer.model_version == "1"
    expected = session.run(None, inputs)
    np.testing.assert_allclose(np.frombuffer(answer.raw_output_contents[0], np.float32).reshape(answer.outputs[0].shape),
                               expected[0], rtol=1e-4, atol=1e-5)
    del request.inputs[0].contents.int64_contents[-1:]
    for change, code in ((lambda: None, grpc.StatusCode.INVALID_ARGUMENT),
                         (lambda: request.raw_input_contents.append(b"12"), grpc.StatusCode.INVALID_ARGUMENT),
                         (lambda: setattr(request.inputs[0], "datatype", "BYTES"), grpc.StatusCode.INVALID_ARGUMENT),
                         (lambda: request.inputs[0].shape.append(-1), grpc.StatusCode.INVALID_ARGUMENT)):
        change()
        try:
            stub.ModelInfer(request)
            raise AssertionError("accepted")
        except grpc.RpcError as error:
            assert error.code() == code and list(inputs)[0] in error.details() or "raw_input_contents" in error.details(), error
    client.unload_model("bert")
    assert "NOT_FOUND" in refusal(lambda: ask(over_grpc, client, inputs))
    assert not client.is_server_ready()
    assert [(each.name, each.state) for each in client.get_model_repository_index().models] == [("bert", "UNAVAILABLE")]
    client.load_model("bert")
    assert client.is_server_ready() and client.is_model_ready("bert")
    ask(over_grpc, client, inputs)


def check_many(session, port, clients=8, each=20):
    """Every client gets the answers to its own requests, beside some that send nonsense."""
    wrong = []

    def run(number):
        with over_grpc.InferenceServerClient(f"127.0.0.1:{port}") as client:
            for i in range(each):
                inputs = sample(session, 1 + (number + i) % 3, 4 + i % 5, number * each + i)
                expected = session.run(None, inputs)[0]
                found = ask(over_grpc, client, inputs).as_numpy(session.get_outputs()[0].name)
                if not np.allclose(found, expected, rtol=1e-4, atol=1e-5):
                    wrong.append((number, i))

    def break_in():
        for i in range(20):
            with socket.create_connection(("127.0.0.1", port)) as raw:
                raw.sendall(bytes((i * 37 + j) % 256 for j in range(200)))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)] + [threading.Thread(target=break_in)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    a = p.parse_args()
    session = onnxruntime.InferenceSession(str(MODEL), providers=["CPUExecutionProvider"])
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        plan = folder / "bert.plan"
        subprocess.run([a.sinter, "compile", MODEL, "-o", plan, "--target=cpu", "--quiet"], check=True)
        with serving(a.sinter, plan, "--batch-rows=8") as (_, port, grpc_port):
            with over_http.InferenceServerClient(f"127.0.0.1:{port}") as client:
                check_answers(over_http, client, session)
            with over_grpc.InferenceServerClient(f"127.0.0.1:{grpc_port}") as client:
                check_answers(over_grpc, client, session)
                check_many(session, grpc_port)
                check_grpc(client, session, grpc_port)
        keys = folder / "keys"
        keys.write_text("secret\n")
        with serving(a.sinter, plan, f"--api-key-file={keys}") as (process, _, grpc_port):
            with over_grpc.InferenceServerClient(f"127.0.0.1:{grpc_port}") as client:
                assert client.is_server_ready()
                inputs = sample(session, 1, 4, 0)
                for headers in (None, {"authorization": "Bearer guess"}):
                    assert "UNAUTHENTICATED" in refusal(lambda: ask(over_grpc, client, inputs, headers=headers))
                ask(over_grpc, client, inputs, headers={"authorization": "Bearer secret"})
            taken = subprocess.run([a.sinter, "serve", plan, "--port=0", f"--grpc-port={grpc_port}", "--quiet"], capture_output=True, text=True)
            assert taken.returncode == 2 and "--grpc-port" in taken.stderr, taken
            process.terminate()
            assert process.wait(30) == 0
    print("tensors over HTTP and gRPC: ok")


if __name__ == "__main__":
    main()
