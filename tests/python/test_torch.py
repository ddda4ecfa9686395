# SPDX-License-Identifier: Apache-2.0
"""torch modules and tensors. GPU tests run where there is one."""
import asyncio
import concurrent.futures
import gc
import subprocess

import numpy as np
import pytest
from conftest import SINTER, make_pair, make_typed, model_of, value
from onnx import TensorProto, helper

import pysinter


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
        plan = pysinter.compile(make_typed(kind), target="cpu")
        given = torch.arange(8).reshape(2, 4).to(dtype)
        for _ in range(2):
            found = plan(given)
            assert found.dtype == dtype and torch.equal(found, given + given)


def test_refused_tensors(torch, plan):
    with pytest.raises(pysinter.UsageError, match="detach"):
        plan(torch.zeros(5, 8, requires_grad=True))
    with pytest.raises(pysinter.UsageError):
        plan(torch.zeros(5, 8, dtype=torch.float64))
    with pytest.raises((pysinter.UsageError, RuntimeError, BufferError)):
        plan(torch.zeros(5, 8).to_sparse())
    with pytest.raises((pysinter.UsageError, RuntimeError, BufferError)):
        plan(torch.zeros(5, 8, device="meta"))


def test_module(torch, network, example):
    plan = pysinter.compile(network, example_inputs=example, target="cpu")
    with torch.no_grad():
        for batch in (3, 7, 1):
            x, scale = torch.randn(batch, 8), example[1]
            torch.testing.assert_close(plan(x, scale), network(x, scale), rtol=1e-4, atol=1e-5)
    assert plan.inputs[0].shape[0].min < plan.inputs[0].shape[0].max
    assert plan.metadata["model_name"].startswith("Network")


def test_module_is_the_command_lines_bit_by_bit(torch, network, example, tmp_path):
    plan = pysinter.compile(network, example_inputs=example, target="cpu")
    program = torch.onnx.export(network, example, dynamo=True, verbose=False, dynamic_shapes=({0: "batch"}, None))
    program.save(str(tmp_path / "Network.onnx"))
    run = lambda *words: subprocess.run([str(SINTER), *map(str, words)], check=True, capture_output=True)
    run("compile", tmp_path / "Network.onnx", "-o", tmp_path / "cli.plan", "--target=cpu", "--quiet")
    names = [each.name for each in plan.inputs]
    np.savez(tmp_path / "in.npz", **{name: value.numpy() for name, value in zip(names, example)})
    run("run", tmp_path / "cli.plan", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as expected:
        assert plan(*example).numpy().tobytes() == expected[plan.outputs[0].name].tobytes()
    assert pysinter.compile(program, target="cpu")(*example).numpy().tobytes() == plan(*example).numpy().tobytes()


def test_export_leaves_the_module_and_the_process_as_they_were(torch, network, example, capsys):
    import copy
    import logging

    class Speaking(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.frozen, self.learning = copy.deepcopy(network), torch.nn.Dropout()

        def forward(self, x, scale):
            print("forward")
            return self.learning(self.frozen(x, scale))

    module = Speaking().train()
    module.frozen.eval()
    modes = [part.training for part in module.modules()]
    levels = [logging.getLogger(name).level for name in ("torch.onnx", "torch.fx", "torch.export")]
    others = [copy.deepcopy(module) for _ in range(3)]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        plans = list(pool.map(lambda each: pysinter.compile(each, example_inputs=example, target="cpu"), others))
    for each in others:
        assert [part.training for part in each.modules()] == modes
    assert [logging.getLogger(name).level for name in ("torch.onnx", "torch.fx", "torch.export")] == levels
    assert "forward" in capsys.readouterr().out  # what the module prints is the program's
    for plan in plans:
        torch.testing.assert_close(plan(*example), network(*example).detach(), rtol=1e-4, atol=1e-5)


def test_tensors_for_the_compiler_are_copied(torch):
    """Transposed and large, so that the copy's memory would be gone once it is freed."""
    weights = torch.randn(4096, 2560).T
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], [value("x", [4096]), value("w", [2560, 4096])],
                     [value("y", [2560, 4096])])
    plan = pysinter.compile(model, target="cpu", constants={"w": weights.requires_grad_()})
    assert torch.equal(plan(torch.zeros(4096)), weights.detach())


def test_named_dimensions(torch, network, example):
    plan = pysinter.compile(network, example_inputs={"x": example[0], "scale": example[1]}, target="cpu",
                          dynamic_shapes={"x": {0: "batch"}, "scale": None}, dims={"batch": (1, 16)})
    first = plan.inputs[0].shape[0]
    assert (first.text, first.min, first.max) == ("batch", 1, 16)
    fixed = pysinter.compile(network, example_inputs=example, dynamic_shapes=None, target="cpu")
    assert fixed.inputs[0].shape[0].max == 3


def test_failed_exports_are_explained(torch, network, example):
    class Branches(torch.nn.Module):
        def forward(self, x):
            return x * 2 if x.sum() > 0 else x - 1

    with pytest.raises(pysinter.Error, match="torch.where") as caught:
        pysinter.compile(Branches(), example_inputs=torch.ones(3), target="cpu")
    assert caught.value.hint and caught.value.__cause__ is not None
    with pytest.raises(pysinter.UsageError, match="needs example_inputs"):
        pysinter.compile(network, target="cpu")
    with pytest.raises(pysinter.Error, match="could not export"):
        pysinter.compile(network, example_inputs=(example[0],), target="cpu")
    module = network.train()
    pysinter.compile(module, example_inputs=example, target="cpu")
    assert module.training
    network.eval()


@pytest.fixture(scope="module")
def cuda(torch):
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    return torch.device("cuda")


@pytest.fixture(scope="module")
def gpu_plan(cuda, mlp):
    return pysinter.compile(mlp, target="cuda", dims={"batch": (1, 64)})


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
    with pytest.raises(pysinter.UsageError, match="is for the CPU"):
        plan(given)


def test_gpu_tensors_that_are_copied(torch, cuda, gpu_plan, x):
    """Those that are strided, or not aligned as kernels read them."""
    given = torch.from_numpy(x).to(cuda)
    expected = gpu_plan(given)
    shifted = torch.empty(x.size + 1, device=cuda)[1:].view(x.shape)
    shifted.copy_(given)
    assert shifted.is_contiguous() and shifted.data_ptr() % 16 != 0
    for each in (shifted, given.t().contiguous().t()):
        assert torch.equal(gpu_plan(each), expected)
        session = gpu_plan.session(device_outputs=True)
        assert torch.equal(session.run(each), expected) and torch.equal(session.run(), expected)
    with pytest.raises(pysinter.UsageError, match="16"):
        gpu_plan(given, out=torch.empty(21, device=cuda)[1:].view(5, 4))
    with pytest.raises(pysinter.UsageError, match="overlaps"):
        gpu_plan(given, out=given.view(-1)[:20].view(5, 4))


def test_gpu_session_keeps_inputs_of_a_run_that_failed(torch, cuda):
    """The first input was set when the second one was refused: the session reads it in the next run."""
    plan = pysinter.compile(make_pair(), target="cuda", dims={"n": (1, 1 << 20)})
    session, rows = plan.session(device_outputs=True), 1 << 20
    ones = torch.ones(rows, 3, device=cuda)
    session.run(ones, ones)
    with pytest.raises(pysinter.UsageError):
        session.run(torch.full((rows, 3), 5.0, device=cuda), torch.ones(rows, 3, device=cuda, dtype=torch.float64))
    gc.collect()
    torch.cuda.synchronize()
    others = [torch.zeros(rows, 3, device=cuda) for _ in range(4)]  # where the freed memory was
    assert (session.run(b=ones)["sum"] == 6).all() and len(others) == 4


def test_gpu_sessions_are_few(torch, cuda, mlp, x):
    """A stream that is new gets a session that is free, and waits for what still reads its outputs."""
    plan = pysinter.load(pysinter.compile(mlp, target="cuda", dims={"batch": (1, 64)}).to_bytes())
    assert plan._options().max_sessions == 4
    base = torch.from_numpy(x).to(cuda)
    plan(base)
    torch.cuda.synchronize()
    expected, found = [plan(base * k).cpu() for k in range(24)], []
    streams = [torch.cuda.Stream() for _ in range(24)]

    def used():  # not by torch, which keeps blocks for each stream
        return -torch.cuda.mem_get_info()[0] - torch.cuda.memory_reserved()
    before = used()
    for k, stream in enumerate(streams):
        with torch.cuda.stream(stream):
            given = base * k
            torch.cuda._sleep(3_000_000)
            found.append(plan(given))
    torch.cuda.synchronize()
    assert all(torch.equal(each.cpu(), wanted) for each, wanted in zip(found, expected))
    assert used() - before < 64 * 2**20


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


def test_gpu_cupy(torch, cuda, gpu_plan, x):
    cupy = pytest.importorskip("cupy")
    expected, given = gpu_plan(torch.from_numpy(x).to(cuda)).cpu().numpy(), cupy.asarray(x)
    found = gpu_plan(given)
    assert isinstance(found, cupy.ndarray) and (found.get() == expected).all()
    shifted = cupy.empty(x.size + 1, np.float32)[1:].reshape(x.shape)
    shifted[...] = given
    for each in (shifted, cupy.asfortranarray(given)):
        assert (gpu_plan(each).get() == expected).all()
    for _ in range(6):  # on several streams in turns: sessions are shared
        with cupy.cuda.Stream(non_blocking=True) as stream:
            found = gpu_plan(given * 1)
            stream.synchronize()
        assert (found.get() == expected).all()
        with torch.cuda.stream(torch.cuda.Stream()):
            assert (gpu_plan(torch.from_numpy(x).to(cuda)).cpu().numpy() == expected).all()
    pair = pysinter.compile(make_pair(), target="cuda", dims={"n": (1, 64)})
    a, b = np.ones((2, 3), np.float32), cupy.ones((2, 3), np.float32)
    assert isinstance(pair(a, b)["sum"], cupy.ndarray)  # of the first in GPU memory
    with pytest.raises(pysinter.UsageError, match="of torch and of CuPy"):
        pair(torch.ones(2, 3, device=cuda), b)
