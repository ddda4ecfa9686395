"""torch modules and tensors. GPU tests run where there is one."""
import asyncio
import subprocess

import numpy as np
import pytest
from conftest import SINTER, make_typed
from onnx import TensorProto

import sinter


@pytest.fixture(scope="module")
def network(torch):
    torch.manual_seed(0)

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.norm = torch.nn.Linear(8, 4), torch.nn.LayerNorm(4)

        def forward(self, x, scale):
            return self.norm(torch.tanh(self.layer(x))) * scale

    return Network().eval()


@pytest.fixture(scope="module")
def example(torch):
    return torch.randn(3, 8), torch.randn(4)


def test_tensors_come_back_as_tensors(torch, plan, x):
    given = torch.from_numpy(x)
    found = plan(given)
    assert isinstance(found, torch.Tensor) and found.dtype == torch.float32 and found.device.type == "cpu"
    assert found.numpy().tobytes() == plan(x).tobytes() == plan(given).numpy().tobytes()
    assert plan(given.t().contiguous().t()).numpy().tobytes() == plan(x).tobytes()
    out = torch.zeros(5, 4)
    assert plan(given, out=out) is out and out.numpy().tobytes() == plan(x).tobytes()


def test_types(torch):
    for dtype, kind in ((torch.bfloat16, TensorProto.BFLOAT16), (torch.float16, TensorProto.FLOAT16),
                        (torch.int64, TensorProto.INT64)):
        plan = sinter.compile(make_typed(kind), target="cpu")
        given = torch.arange(8).reshape(2, 4).to(dtype)
        for _ in range(2):
            found = plan(given)
            assert found.dtype == dtype and torch.equal(found, given + given)


def test_refused_tensors(torch, plan):
    with pytest.raises(sinter.UsageError, match="detach"):
        plan(torch.zeros(5, 8, requires_grad=True))
    with pytest.raises(sinter.UsageError):
        plan(torch.zeros(5, 8, dtype=torch.float64))
    with pytest.raises((sinter.UsageError, RuntimeError, BufferError)):
        plan(torch.zeros(5, 8).to_sparse())
    with pytest.raises((sinter.UsageError, RuntimeError, BufferError)):
        plan(torch.zeros(5, 8, device="meta"))


def test_module(torch, network, example):
    plan = sinter.compile(network, example_inputs=example, target="cpu")
    with torch.no_grad():
        for batch in (3, 7, 1):
            x, scale = torch.randn(batch, 8), example[1]
            torch.testing.assert_close(plan(x, scale), network(x, scale), rtol=1e-4, atol=1e-5)
    assert plan.inputs[0].shape[0].min < plan.inputs[0].shape[0].max
    assert plan.metadata["model_name"].startswith("Network")


def test_module_is_the_command_lines_bit_by_bit(torch, network, example, tmp_path):
    plan = sinter.compile(network, example_inputs=example, target="cpu")
    program = torch.onnx.export(network, example, dynamo=True, verbose=False, dynamic_shapes=({0: "batch"}, None))
    program.save(str(tmp_path / "Network.onnx"))
    run = lambda *words: subprocess.run([str(SINTER), *map(str, words)], check=True, capture_output=True)
    run("compile", tmp_path / "Network.onnx", "-o", tmp_path / "cli.plan", "--target=cpu", "--quiet")
    names = [each.name for each in plan.inputs]
    np.savez(tmp_path / "in.npz", **{name: value.numpy() for name, value in zip(names, example)})
    run("run", tmp_path / "cli.plan", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as expected:
        assert plan(*example).numpy().tobytes() == expected[plan.outputs[0].name].tobytes()
    assert sinter.compile(program, target="cpu")(*example).numpy().tobytes() == plan(*example).numpy().tobytes()


def test_named_dimensions(torch, network, example):
    plan = sinter.compile(network, example_inputs={"x": example[0], "scale": example[1]}, target="cpu",
                          dynamic_shapes={"x": {0: "batch"}, "scale": None}, dims={"batch": (1, 16)})
    first = plan.inputs[0].shape[0]
    assert (first.text, first.min, first.max) == ("batch", 1, 16)
    fixed = sinter.compile(network, example_inputs=example, dynamic_shapes=None, target="cpu")
    assert fixed.inputs[0].shape[0].max == 3


def test_failed_exports_are_explained(torch, network, example):
    class Branches(torch.nn.Module):
        def forward(self, x):
            return x * 2 if x.sum() > 0 else x - 1

    with pytest.raises(sinter.Error, match="torch.where") as caught:
        sinter.compile(Branches(), example_inputs=torch.ones(3), target="cpu")
    assert caught.value.way_out and caught.value.__cause__ is not None
    with pytest.raises(sinter.UsageError, match="needs example_inputs"):
        sinter.compile(network, target="cpu")
    with pytest.raises(sinter.Error, match="could not export"):
        sinter.compile(network, example_inputs=(example[0],), target="cpu")
    module = network.train()
    sinter.compile(module, example_inputs=example, target="cpu")
    assert module.training
    network.eval()


@pytest.fixture(scope="module")
def cuda(torch):
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    return torch.device("cuda")


@pytest.fixture(scope="module")
def gpu_plan(cuda, mlp):
    return sinter.compile(mlp, target="cuda", dims={"batch": (1, 64)})


def test_gpu_tensors(torch, cuda, gpu_plan, plan, x):
    expected = torch.from_numpy(plan(x))
    given = torch.from_numpy(x).to(cuda)
    found = gpu_plan(given)
    assert found.device.type == "cuda"
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-4)
    kept = found.clone()
    gpu_plan(-given)
    assert torch.equal(found, kept)
    out = torch.zeros(5, 4, device=cuda)
    assert gpu_plan(given, out=out) is out and torch.equal(out, kept)
    np.testing.assert_allclose(gpu_plan(x), expected.numpy(), rtol=1e-4, atol=1e-4)
    with pytest.raises(sinter.UsageError, match="is for the CPU"):
        plan(given)


def test_gpu_streams(torch, cuda, gpu_plan, x):
    """Work in front of a call and behind it on the current stream is ordered; calls on several streams share sessions."""
    streams = [torch.cuda.Stream() for _ in range(4)]
    base = torch.from_numpy(x).to(cuda)
    expected = [gpu_plan(base * k).cpu() for k in range(40)]
    torch.cuda.synchronize()
    found = []
    for k in range(40):
        with torch.cuda.stream(streams[k % 4]):
            torch.cuda._sleep(1_000_000)
            given = base * k
            found.append(gpu_plan(given) + 0)
    torch.cuda.synchronize()
    for k in range(40):
        assert torch.equal(found[k].cpu(), expected[k]), k


def test_gpu_async(torch, cuda, gpu_plan, x):
    given = torch.from_numpy(x).to(cuda)

    async def main():
        with torch.cuda.stream(torch.cuda.Stream()):
            return [await gpu_plan.call_async(given) for _ in range(5)]
    for each in asyncio.run(main()):
        torch.cuda.synchronize()
        assert torch.equal(each, gpu_plan(given))


def test_gpu_session(torch, cuda, gpu_plan, x):
    session = gpu_plan.session(device_outputs=True)
    given = torch.from_numpy(x).to(cuda)
    first = session.run(given)
    given.neg_()
    second = session.run()  # reads the tensor where it lies
    torch.cuda.synchronize()
    assert torch.equal(first, gpu_plan(-given)) and torch.equal(second, gpu_plan(given))
