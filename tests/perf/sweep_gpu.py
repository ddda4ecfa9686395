# SPDX-License-Identifier: Apache-2.0
"""The GPU part of run_operator_sweep.py: Sinter, PyTorch eager and compiled, and a copy take turns."""
import time

import numpy as np

import operator_cases as cases
from sinter_library import Session
from sweep_rows import finished

COMPILED = ("pointwise", "rows", "graphs", "reductions", "places", "transposes", "moves", "gather", "scatter", "scans", "softmax", "norms",
            "pooling", "interpolation", "sampling", "quantise", "quantised pointwise", "features")  # elsewhere it calls what eager calls
MOST_RESERVED = 48 << 30  # bytes that PyTorch may keep of the GPU's memory between cases
TORCH_VIEWS = {"f8": ("|u1", np.uint8, "float8_e4m3fn"), "bf16": ("<i2", np.int16, "bfloat16")}  # types that NumPy has not


def on_device(address, dtype, shape):
    """Memory of a plan's as a tensor."""
    import torch
    views = {np.dtype(cases.NUMPY[name]): view for name, view in TORCH_VIEWS.items()}
    kind, _, name = views.get(dtype, (dtype.str, None, None))
    holder = type("Memory", (), {"__cuda_array_interface__": {"shape": shape, "typestr": kind, "data": (address or 0, False), "version": 3}})
    tensor = torch.as_tensor(holder(), device="cuda")
    return tensor.view(getattr(torch, name)) if name else tensor


def to_torch(array, device="cuda"):
    import torch
    if array is None:
        return None
    for name, (_, bits, dtype) in TORCH_VIEWS.items():
        if array.dtype == cases.NUMPY[name]:
            return torch.from_numpy(np.atleast_1d(array).view(bits)).to(device).view(getattr(torch, dtype)).reshape(array.shape)
    return torch.from_numpy(array).to(device)


def to_numpy(tensor):
    """Of the host's; types that NumPy has not are float32."""
    import torch
    return (tensor.float() if tensor.dtype in (torch.bfloat16, torch.float8_e4m3fn) else tensor).numpy()


def as_tuple(made):
    return tuple(made) if isinstance(made, (tuple, list)) else (made,)


def gpu_error(session, expected, count):
    import torch
    worst = 0.0
    for place, theirs in list(enumerate(as_tuple(expected)))[:count]:
        address, dtype, shape = session.output(place)
        if not np.prod(shape):
            continue
        ours, theirs = (t.double().flatten() for t in (on_device(address, dtype, shape), theirs))
        if ours.shape != theirs.shape:
            return float("inf")
        differ = ~((ours == theirs) | (ours.isnan() & theirs.isnan()))
        scale = torch.linalg.vector_norm(theirs[theirs.isfinite()]).item() or 1.0
        worst = max(worst, torch.linalg.vector_norm((ours - theirs)[differ]).item() / scale)
    return worst


def compiled_for(point, tensors):
    import torch
    torch._dynamo.reset()
    function, given = point.peer(tensors)
    compiled = torch.compile(function)
    return lambda: compiled(*given)


def compile_in_torch(name):
    """In a process of its own, so that Inductor's cache has the point when it is measured."""
    import torch
    point = next(p for p in cases.all_points() if p.name == name)
    try:
        with torch.inference_mode():
            compiled_for(point, [to_torch(each) for each in point.arrays()])()
            torch.cuda.synchronize()
    except Exception:  # noqa: BLE001: said when it is measured
        pass
    torch.cuda.empty_cache()
    return name


def compile_beforehand(points, jobs, deadline):
    """The names of those that were compiled until then."""
    import multiprocessing
    names, done = [p.name for p in points if p.case.group in COMPILED and p.case.torch], set()
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        made = pool.imap_unordered(compile_in_torch, names)
        try:
            for _ in names:
                done.add(made.next(max(0.1, deadline - time.monotonic())))
        except multiprocessing.TimeoutError:
            pool.terminate()
    print(f"torch.compile: {len(done)} of {len(names)}", flush=True)
    return done


def waits(call):
    """Whether a call waits for the GPU, so that it cannot be captured: a capture that fails spoils PyTorch's allocator."""
    import torch
    torch.cuda.set_sync_debug_mode("error")
    try:
        call()
    except RuntimeError:
        return True
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return False


def gpu_times_in_turns(sides, seconds):
    """The median of each side in microseconds, caches cold, one call of each in turn; see gpu_timing.gpu_times()."""
    import torch
    from gpu_timing import flusher
    flush = flusher()
    began = time.perf_counter()
    for call in sides.values():
        call()
    torch.cuda.synchronize()
    once = time.perf_counter() - began
    rounds = int(np.clip(seconds / max(2 * once, 1e-5), 3, 40))
    events = {name: [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(rounds)] for name in sides}
    for k in range(rounds):
        for name, call in sides.items():
            start, stop = events[name][k]
            call()
            flush()
            start.record()
            call()
            stop.record()
    torch.cuda.synchronize()
    return {name: round(float(np.median([start.elapsed_time(stop) for start, stop in each])) * 1e3, 2) for name, each in events.items()}


def peers_on_gpu(point, tensors, session, compiled):
    """What of PyTorch's is called, by name, and what is to be said of it."""
    from gpu_timing import captured
    row, sides = {}, {}
    if not point.case.torch:
        return {"no_peer": point.case.no_peer}, sides
    try:
        function, given = point.peer(tensors)

        def eager():
            return function(*given)
        row["error"] = gpu_error(session, eager(), point.case.compared)
        row["captured"] = point.case.captured and not waits(eager)
        sides["eager"] = captured(eager) if row["captured"] else eager
    except Exception as error:  # noqa: BLE001: whatever the peer says
        return {**row, "no_peer": f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"}, {}
    if compiled:
        try:
            call = compiled_for(point, tensors)
            call()
            sides["compile"] = captured(call) if row["captured"] else call
        except Exception as error:  # noqa: BLE001
            row["no_compile"] = f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
    return row, sides


def on_gpu(library, point, arrays, plan, rates, seconds, compiled):
    import torch
    from gpu_timing import captured
    for backend in (torch.backends.cuda.matmul, torch.backends.cudnn):
        backend.allow_tf32 = point.type == "tf32"
    tensors = [to_torch(each) for each in arrays]
    session = Session(library, plan, on_device=True)
    try:
        for k, (value, array) in enumerate(zip(point.case.inputs, arrays)):
            if value and not value.constant:
                session.use(f"i{k}", tensors[k].data_ptr(), array.dtype, array.shape)
        session.start()
        session.wait()
        results = [session.output(k) for k in range(session.outputs_count)]
        outputs = [np.broadcast_to(np.zeros((), dtype), shape) for _, dtype, shape in results]  # their sizes are what counts
        moved = point.bytes_moved(arrays, outputs)
        row, peers = peers_on_gpu(point, tensors, session, point.name in compiled)
        source = torch.randint(-99, 100, (max(1, int(moved) // 2),), device="cuda", dtype=torch.int8)
        target = torch.empty_like(source)
        sides = {"sinter": session.start, **peers, "copy": captured(lambda: target.copy_(source))}
        row.update({f"{name}_us": us for name, us in gpu_times_in_turns(sides, seconds).items()})
    finally:
        torch.cuda.synchronize()
        session.close()
        if torch.cuda.memory_reserved() > MOST_RESERVED:
            sides = peers = source = target = tensors = None
            torch.cuda.empty_cache()
    return finished(row, point, moved, rates)
