# SPDX-License-Identifier: Apache-2.0
"""The CPU part of run_operator_sweep.py: Sinter and ONNX Runtime take turns; and whether cases and peers compute the same."""
import importlib.util
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import common  # noqa: F401  where runs is found
from runs import onnx_runtime
from sinter_library import Library, Session
from sweep_rows import bound_of, error_of, finished

LONG_CALL = 0.5  # seconds: what takes longer is called once or twice
AGAIN = 0.8  # what seems to be further behind has four times as many turns: other programs disturb short ones


def times_in_turns(sides, seconds, turns=3):
    """The best median of each side's turns in microseconds. `sides` make what is called: anew in each turn, so that threads of
    one do not spin beside the other. Each runs about `seconds` in all; what takes longer than that at once has one turn."""
    medians = {name: [] for name in sides}
    for turn in range(turns):
        for name, make in sides.items():
            if turn and medians[name][0] > LONG_CALL * 1e6:
                continue
            call = make()
            samples = []
            for k in range(2):
                began = time.perf_counter()
                call()
                once = time.perf_counter() - began
                if once > LONG_CALL:
                    break
            for _ in range(int(np.clip(seconds / turns / once, 1, 2000)) if once < LONG_CALL else 0):
                began = time.perf_counter()
                call()
                samples.append(time.perf_counter() - began)
            medians[name].append(float(np.median(samples or [once])) * 1e6)
    return {name: round(min(each), 2) for name, each in medians.items()}


def peer_on_cpu(path, feeds, threads):
    """A call of ONNX Runtime with inputs and outputs where they lie, and its outputs."""
    session = onnx_runtime(path, threads)
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    for output in session.get_outputs():
        binding.bind_output(output.name)
    return lambda: session.run_with_iobinding(binding), binding.copy_outputs_to_cpu


def on_cpu(library, point, arrays, folder, threads, rates, seconds):
    feeds = point.feeds(arrays)
    session = Session(library, folder / f"{point.stem}.cpu.plan", threads)
    for name, array in feeds.items():
        session.use(name, array.ctypes.data, array.dtype, array.shape)
    session.run()
    ours = session.arrays()
    row, sides = {}, {"sinter": lambda: session.run}
    model = folder / f"{point.stem}.onnx"
    try:
        call, results = peer_on_cpu(model, feeds, threads)
        call()
        row["error"] = error_of(ours, results())
        del call, results
        sides["onnxruntime"] = lambda: peer_on_cpu(model, feeds, threads)[0]
    except Exception as error:  # noqa: BLE001: whatever the peer says
        row["no_peer"] = str(error).splitlines()[0][:120]
    times = times_in_turns(sides, seconds)
    for _ in range(3 if times.get("onnxruntime", times["sinter"]) < AGAIN * times["sinter"] < LONG_CALL * 1e6 else 0):
        times = {name: min(us, times[name]) for name, us in times_in_turns(sides, seconds).items()}
    row.update({f"{name}_us": us for name, us in times.items()})
    session.close()
    return finished(row, point, point.bytes_moved(arrays, ours), rates)


def cpu_rates(threads):
    """Bytes a second of a copy and FLOPs a second of a matmul, with `threads` threads."""
    import onnx
    side = 1024
    source = np.random.default_rng(0).standard_normal(1 << 25).astype(np.float32)
    target = np.empty_like(source)
    parts = list(zip(np.array_split(source, threads), np.array_split(target, threads)))
    with ThreadPoolExecutor(threads) as pool:
        copy = times_in_turns({"copy": lambda: lambda: list(pool.map(lambda p: np.copyto(p[1], p[0]), parts))}, 0.5)["copy"]
    with tempfile.TemporaryDirectory() as folder:
        helper, path = onnx.helper, Path(folder) / "product.onnx"
        value = [helper.make_tensor_value_info(name, 1, [side, side]) for name in "aby"]
        onnx.save(helper.make_model(helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["y"])], "g", value[:2], value[2:]),
                                    opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
        square = source[:side * side].reshape(side, side)
        product = times_in_turns({"product": lambda: peer_on_cpu(path, {"a": square, "b": square}, threads)[0]}, 0.5)["product"]
    return {"bytes": 2 * source.nbytes / copy * 1e6, "flops": 2 * side ** 3 / product * 1e6}


def on_host(point, tensors):
    """The peer's result on the CPU, in float32 where PyTorch has no float16 there."""
    import torch
    with torch.inference_mode():
        try:
            function, given = point.peer(tensors)
            return function(*given)
        except NotImplementedError:
            function, given = point.peer([each.float() if each is not None and each.dtype == torch.float16 else each for each in tensors])
            return function(*given)


def dry_run(library, points, folder, problems, verbose):
    """Whether Sinter, ONNX Runtime and the functions of PyTorch's agree on the CPU: the exit code. Plans are in `folder`."""
    bad, with_torch = 0, importlib.util.find_spec("torch")
    if not with_torch:
        print("there is no PyTorch here: its functions are not looked at")
    for point in points:
        bound = bound_of(point)
        said = []
        try:
            if point.name in problems:
                raise RuntimeError(problems[point.name])
            arrays = point.arrays()
            session = Session(library, folder / f"{point.stem}.cpu.plan")
            feeds = point.feeds(arrays)
            for name, array in feeds.items():
                session.use(name, array.ctypes.data, array.dtype, array.shape)
            session.run()
            ours = session.arrays()
            point.bytes_moved(arrays, ours)
            session.close()
        except Exception as error:  # noqa: BLE001
            ours, said = None, [f"Sinter: {str(error)[:250]}"]
        if ours:
            try:
                call, results = peer_on_cpu(folder / f"{point.stem}.onnx", feeds, 1)
                call()
                if (error := error_of(ours, results())) > bound:
                    said.append(f"ONNX Runtime differs by {error:.2g}")
            except Exception as error:  # noqa: BLE001
                if verbose:
                    print(point.name, "no ONNX Runtime:", str(error).splitlines()[0][:160])
            if point.case.torch and with_torch:
                try:
                    from sweep_gpu import as_tuple, to_numpy, to_torch
                    made = [to_numpy(each) for each in as_tuple(on_host(point, [to_torch(each, "cpu") for each in arrays]))]
                    if (error := error_of(ours, made, point.case.compared)) > bound:
                        said.append(f"PyTorch differs by {error:.2g}")
                except Exception as error:  # noqa: BLE001
                    said.append(f"PyTorch: {type(error).__name__}: {str(error)[:200]}")
            elif not point.case.torch and not point.case.no_peer:
                said.append("no peer, and no reason why")
        if said:
            bad += 1
            print(f"{point.name}: {'; '.join(said)}", flush=True)
    print(f"{len(points)} cases, {bad} wrong")
    return 1 if bad else 0
