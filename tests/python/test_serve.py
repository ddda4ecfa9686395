# SPDX-License-Identifier: Apache-2.0
"""`sinter serve` of the wheel's command. What it answers is tested with the same server in tests/tools/serve, and by
tests/serve/check_clients.py, which tools/wheel runs with this command."""
import contextlib
import json
import signal
import subprocess
import urllib.request

import numpy as np
import pytest
from conftest import SINTER


@contextlib.contextmanager
def serving(plan, *options):
    """The process and its address."""
    process = subprocess.Popen([SINTER, "serve", plan, *options, "--port=0", "--json", "--quiet"], stdout=subprocess.PIPE, text=True)
    try:
        said = ""
        while not said.endswith("}\n"):
            line = process.stdout.readline()
            assert line, f"the server ended with {process.wait()}"
            said += line
        yield process, json.loads(said)["address"]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_tensors_until_a_signal(plan, reference, x, tmp_path, ending):
    plan.save(tmp_path / "mlp.plan")
    with serving(tmp_path / "mlp.plan") as (process, address):
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": list(x.shape), "data": x.ravel().tolist()}]}
        request = urllib.request.Request(f"{address}/v2/models/mlp/infer", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            (output,) = json.load(answer)["outputs"]
        np.testing.assert_allclose(np.reshape(output["data"], output["shape"]), reference(x), rtol=1e-4, atol=1e-5)
        process.send_signal(ending)  # which may come to a thread of NumPy's
        assert process.wait(60) == 0


def test_grpc_is_refused_by_name(plan, tmp_path):
    plan.save(tmp_path / "mlp.plan")
    done = subprocess.run([SINTER, "serve", tmp_path / "mlp.plan", "--port=0", "--grpc-port=0"], capture_output=True, text=True)
    assert done.returncode == 2 and "--grpc-port" in done.stderr and "HTTP" in done.stderr, done
