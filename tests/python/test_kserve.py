# SPDX-License-Identifier: Apache-2.0
"""The example of a KServe predictor, with KServe's own server in a process of its own."""
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import ROOT, in_threads

import pysinter

EXAMPLE = ROOT / "tools/python/examples/kserve_predictor.py"


@pytest.fixture(scope="module")
def pair_file(pair, tmp_path_factory):
    path = tmp_path_factory.mktemp("kserve") / "pair.plan"
    pair.save(path)
    return path


@pytest.fixture(scope="module")
def server(request, pair_file):
    """The ports of HTTP and gRPC."""
    if not request.config.getoption("--servers"):
        pytest.skip("asked for with --servers")
    from triton_server import free_ports, is_live
    http, grpc = free_ports(2)
    log = pair_file.with_suffix(".log")
    with open(log, "wb") as out:
        process = subprocess.Popen([sys.executable, EXAMPLE, "--plan", pair_file, "--model_name=pair", "--threads=1",
                                    f"--http_port={http}", f"--grpc_port={grpc}"], stdout=out, stderr=subprocess.STDOUT)
    while not is_live(http, "/v2/models/pair/ready"):
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
    yield http, grpc
    process.terminate()
    assert process.wait(60) == 0, log.read_text()[-2000:]


def modules(server):
    import tritonclient.grpc
    import tritonclient.http
    return (tritonclient.http, server[0]), (tritonclient.grpc, server[1])


def ask(module, client, inputs, names=("sum", "difference")):
    from tritonclient.utils import np_to_triton_dtype
    tensors = []
    for name, array in inputs.items():
        tensors.append(module.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)))
        tensors[-1].set_data_from_numpy(array)
    answer = client.infer("pair", tensors)
    return [answer.as_numpy(name) for name in names]


def test_clients_at_once_over_both_protocols(server):
    def run(number):
        module, port = modules(server)[number % 2]
        r = np.random.default_rng(number)
        with module.InferenceServerClient(f"127.0.0.1:{port}") as client:
            for i in range(10):
                a, b = r.standard_normal((2, 1 + i % 4, 3), np.float32)
                sums, differences = ask(module, client, {"a": a, "b": b})
                np.testing.assert_array_equal(sums, a + b)
                np.testing.assert_array_equal(differences, a - b)

    in_threads(6, run)


def test_json_and_metadata(server):
    import requests
    address = f"http://127.0.0.1:{server[0]}/v2/models/pair"
    described = requests.get(address, timeout=60).json()
    assert [(each["name"], each["datatype"], each["shape"]) for each in described["inputs"]] == [
        ("a", "FP32", [-1, 3]), ("b", "FP32", [-1, 3])]
    tensor = {"datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}
    answer = requests.post(f"{address}/infer", json={"inputs": [{"name": name, **tensor} for name in "ab"]}, timeout=60).json()
    assert {each["name"]: each["data"] for each in answer["outputs"]} == {"sum": [2, 4, 6], "difference": [0, 0, 0]}


def test_requests_that_do_not_fit(server):
    from tritonclient.utils import InferenceServerException
    good = np.ones((2, 3), np.float32)
    for module, port in modules(server):
        with module.InferenceServerClient(f"127.0.0.1:{port}") as client:
            for inputs, said in (({"a": good}, "'b'"), ({"a": good, "b": good[:1]}, "'b'"),
                                 ({"a": good, "b": good.astype(np.float64)}, "'b'"), ({"a": good, "b": good, "c": good}, "'c'")):
                with pytest.raises(InferenceServerException, match=said):
                    ask(module, client, inputs)
            assert np.array_equal(ask(module, client, {"a": good, "b": good})[0], good + good)
    import requests
    v1 = requests.post(f"http://127.0.0.1:{server[0]}/v1/models/pair:predict", json={"instances": [[1, 2, 3]]}, timeout=60)
    assert v1.status_code == 400 and "/v2/models/pair/infer" in v1.text


def test_a_plan_that_cannot_be_served(pair_file, request, tmp_path):
    if not request.config.getoption("--servers"):
        pytest.skip("asked for with --servers")
    path = tmp_path / "corrupt.plan"
    path.write_bytes(pair_file.read_bytes()[:200])
    done = subprocess.run([sys.executable, EXAMPLE, "--plan", path, "--model_name=pair"], capture_output=True, text=True)
    assert done.returncode != 0 and "corrupt.plan" in done.stderr
    assert pysinter.load(pair_file)
