# SPDX-License-Identifier: Apache-2.0
"""Single layers y = x w of float16 activations, with weights of 16, 8 and 4 bits, against PyTorch: run_quantized.py
--layers.

Peers: a float16 product by cuBLASLt (PyTorch's, the faster of the weights' two layouts), and for integers a kernel
that writes the weights as float16 (compiled by Inductor) and that product behind it. Shares are of a 4 GB copy's rate
and of the rate of a float16 product of 8192 cubed, read in the same run. Beside points of one row, which are little but
their weights, is what moving as many bytes takes that is timed in the same way: 'copy_us' reads and writes them, half
each, 'read_us' reads them all.
"""
import math
import multiprocessing
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from common import beside, sinter_json, write

# n x k, the largest first: parts take turns.
SHAPES = ((28672, 28672), (128256, 4096), (28672, 4096), (14336, 4096), (4096, 14336), (4096, 4096), (8192, 2048),
          (2048, 8192), (2048, 2048))
ROWS = (1, 2, 4, 8, 16, 64, 256, 1024, 4096)
KINDS = ("f16", "int8", "int4")
GROUP = 128
LARGE = 1 << 26  # weights of layers that the conditions are about
# GEMMs of HEAVY operations and more draw so much power that clocks sink, and by how much varies. Those with integer
# weights are measured in ROUNDS rounds, alternating with the peers, each after SETTLE seconds of the same GEMM.
HEAVY, SETTLE, ROUNDS = 1 << 37, 0.1, 3


def is_heavy(m, n, k):
    return 2 * m * n * k >= HEAVY


def weights_of(kind, n, k):
    """As ONNX stores them. A few million numbers again and again: making them all anew takes longer than measuring."""
    rng = np.random.default_rng(0)

    def filled(numbers, *shape):
        return np.resize(numbers, shape)
    if kind == "f16":
        return {"w": filled((rng.standard_normal(1 << 22, np.float32) * k ** -0.5).astype(np.float16), k, n)}
    groups = k // GROUP if kind == "int4" else 1
    scales = filled((rng.random(1 << 20, np.float32) * 0.01 + 0.01).astype(np.float16), n, groups)
    if kind == "int8":
        return {"w": filled(rng.integers(-127, 128, 1 << 22, np.int8), n, k), "s": scales}
    return {"w": filled(rng.integers(0, 256, 1 << 22, np.uint8), n, k // 2), "s": scales}


def model_of(kind, m, n, k, tensors):
    """y = x w; `tensors`: initialisers whose data lie in a file."""
    from onnx import TensorProto, helper
    if kind == "f16":
        nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    elif kind == "int8":
        nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=0),
                 helper.make_node("Transpose", ["d"], ["t"], perm=[1, 0]),
                 helper.make_node("MatMul", ["x", "t"], ["y"])]
    else:
        nodes = [helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", K=k, N=n, bits=4,
                                  block_size=GROUP)]

    def value(name, *shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT16, shape)
    graph = helper.make_graph(nodes, "layer", [value("x", m, k)], [value("y", m, n)], initializer=tensors)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21),
                                                                  helper.make_opsetid("com.microsoft", 1)])


def write_models(folder, kind, n, k, rows):
    """The files of the models, by rows; they share one of weights."""
    import onnx
    stem, tensors, offset = f"{kind}_{n}x{k}", [], 0
    with open(folder / f"{stem}.weights", "wb") as file:
        for name, data in weights_of(kind, n, k).items():
            shape = (n, k // GROUP, GROUP // 2) if kind == "int4" and name == "w" else \
                (n,) if kind == "int8" and name == "s" else data.shape
            proto = onnx.TensorProto(name=name, dims=shape, data_location=onnx.TensorProto.EXTERNAL,
                                     data_type=onnx.helper.np_dtype_to_tensor_dtype(data.dtype))
            file.seek(offset)
            data.tofile(file)
            for key, entry in {"location": f"{stem}.weights", "offset": offset, "length": data.nbytes}.items():
                proto.external_data.add(key=key, value=str(entry))
            tensors.append(proto)
            offset += -(-data.nbytes // 4096) * 4096
    paths = {}
    for m in rows:
        paths[m] = folder / f"{stem}_{m}.onnx"
        onnx.save(model_of(kind, m, n, k, tensors), paths[m])
    return paths


def dequantizer(kind):
    import torch

    def bytes_to_half(numbers, scales):
        return numbers.half() * scales

    def halves_to_half(numbers, scales):
        both = torch.stack((numbers & 15, numbers >> 4), -1).flatten(1).half() - 8
        return (both.unflatten(1, (-1, GROUP)) * scales.unsqueeze(-1)).flatten(1)
    torch._dynamo.reset()  # sizes that are numbers: with symbols the kernels take three times as long
    return torch.compile(bytes_to_half if kind == "int8" else halves_to_half, dynamic=False, fullgraph=True)


def compile_dequantizers(kind, shapes):
    """Puts their kernels into Inductor's cache, where who measures finds them."""
    import torch
    with torch.inference_mode():
        for n, k in shapes:
            width, dtype = (k, torch.int8) if kind == "int8" else (k // 2, torch.uint8)
            dequantizer(kind)(torch.zeros(n, width, dtype=dtype, device="cuda"),
                              torch.ones(n, k // GROUP if kind == "int4" else 1, dtype=torch.half, device="cuda"))


class Peers:
    """What PyTorch runs of a layer."""

    def __init__(self, n, k):
        import torch
        self.n, self.k = n, k
        self.held = {kind: {name: torch.from_numpy(data).cuda() for name, data in weights_of(kind, n, k).items()}
                     for kind in KINDS}
        as_given = self.held["f16"]["w"]
        self.floats = as_given, as_given.t().contiguous().t()  # the layouts that models have
        self.dequantize = {kind: dequantizer(kind) for kind in KINDS[1:]}

    def time(self, kind, m, seconds):
        """Microseconds with m rows."""
        import torch
        from gpu_timing import measure
        settle = SETTLE if is_heavy(m, self.n, self.k) else 0.0
        x = torch.randn(m, self.k, device="cuda", dtype=torch.float16)

        def unpacked():
            return self.dequantize[kind](self.held[kind]["w"], self.held[kind]["s"]).t()
        calls = [lambda w=w: x @ w for w in self.floats] if kind == "f16" else [lambda: x @ unpacked()]
        with torch.inference_mode():
            return min(measure(call, seconds, settle)["gpu_us"] for call in calls)


def tensor_rate():
    """Operations of float16 products per second, in TFLOP/s."""
    import torch
    from gpu_timing import measure
    size = 8192
    x, y = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
    return 2 * size ** 3 / measure(lambda: x @ y)["gpu_us"] * 1e-6


def empty_plan(a, folder, target):
    """Microseconds of a plan that computes one number."""
    import onnx
    from onnx import TensorProto, helper
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, (1,)) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "empty", value[:1], value[1:])
    path = folder / "empty.onnx"
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)]), path)
    sinter_json(a.sinter, "compile", path, "-o", path.with_suffix(".plan"), f"--target={target}")
    bench = sinter_json(a.sinter, "bench", path.with_suffix(".plan"), "--deviceIo", "--duration=0.5")
    return round(bench["compute_us"]["median"], 2)


def compile_plan(sinter, target, model):
    """The plan, or what went wrong."""
    plan = model.with_suffix(".plan")
    try:
        sinter_json(sinter, "compile", model, "-o", plan, f"--target={target}")
    except (SystemExit, Exception) as problem:
        return RuntimeError(str(problem)[-300:])
    return plan


def bytes_of(kind, m, n, k):
    weight = {"f16": 2 * n * k, "int8": n * k + 2 * n, "int4": n * k // 2 + 2 * n * (k // GROUP)}[kind]
    return weight + 2 * m * (n + k)


def measure(a, result, began):
    import torch
    from gpu_timing import copy_rate, empty_time
    part, parts = map(int, a.part.split("/"))
    shapes = [tuple(map(int, text.split("x"))) for text in a.shapes.split(",")] if a.shapes else SHAPES
    rows = [int(text) for text in a.rows.split(",")] if a.rows else ROWS
    target = "cuda:sm_%d%d" % torch.cuda.get_device_capability()
    todo = shapes[part::parts]
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as name, spawn.Pool(4) as others, beside(a.jobs) as pool:
        folder = Path(name)

        def begun(shape):
            """A task that makes the plans of a shape, by kind and rows, on the host alone."""
            def plans_of(kind):
                return [(kind, m, pool.submit(compile_plan, a.sinter, target, path))
                        for m, path in write_models(folder, kind, *shape, rows).items()]
            return [pool.submit(plans_of, kind) for kind in KINDS]
        ahead = begun(todo[0])
        others.starmap(compile_dequantizers, [(kind, todo[i::2]) for kind in KINDS[1:] for i in range(2)])
        others.close()
        others.join()
        copy, tensor = copy_rate(), tensor_rate()
        result.update(copy_TBps=round(copy, 3), tensor_TFLOPs=round(tensor, 1), empty_kernel_us=empty_time(),
                      empty_plan_us=empty_plan(a, folder, target))
        print(f"copy {copy:.2f} TB/s, float16 product {tensor:.0f} TFLOP/s, empty kernel {result['empty_kernel_us']} "
              f"us, plan of one number {result['empty_plan_us']} us; {time.monotonic() - began:.0f} s", flush=True)
        for index, shape in enumerate(todo):
            plans = {(kind, m): plan.result() for task in ahead for kind, m, plan in task.result()}
            peers = Peers(*shape)
            times = {(kind, m): [peers.time(kind, m, a.seconds)] for kind in KINDS for m in rows}
            print(f"{shape}: {time.monotonic() - began:.0f} s", flush=True)
            ahead = begun(todo[index + 1]) if index + 1 < len(todo) else []
            if time.monotonic() - began > a.deadline:
                print("deadline: the rest is not run")
                break
            ours = bench(a, shape, plans, times)
            heavy = {key: plan for key, plan in plans.items() if key[0] != "f16" and is_heavy(key[1], *shape)}
            for _ in range(ROUNDS - 1 if heavy else 0):
                for key in heavy:
                    times[key].append(peers.time(*key, a.seconds))
                for key, said in bench(a, shape, heavy, times).items():
                    ours[key] = ours[key] + said if isinstance(said, list) and isinstance(ours[key], list) else said
            del peers
            torch.cuda.empty_cache()
            found = [row_of(a, kind, m, shape, plan, ours.get((kind, m)), times, copy, tensor)
                     for (kind, m), plan in plans.items()]
            result["layers"] = [row for row in result["layers"] if (row["n"], row["k"]) != shape] + found
            write(a.out, result)
            for plan in folder.glob(f"*_{shape[0]}x{shape[1]}*"):
                plan.unlink()


def bench(a, shape, plans, times):
    """What `sinter bench` says of a shape's plans, by kind and rows: a list of one, or what went wrong. `times`: those
    of the peers."""
    from gpu_timing import heavy_runs
    found = {}

    def add(keys, *options):
        if not keys:
            return
        try:
            said = sinter_json(a.sinter, "bench", *(plans[key] for key in keys), "--deviceIo", *options)
            found.update(zip(keys, ([one] for one in (said if len(keys) > 1 else [said]))))
        except SystemExit as problem:
            found.update(dict.fromkeys(keys, str(problem)))
    there = [key for key, plan in plans.items() if not isinstance(plan, Exception)]
    add([key for key in there if not is_heavy(key[1], *shape)], "--iterations=60", "--warmUp=3",
        f"--duration={a.seconds}")
    for m in dict.fromkeys(m for _, m in there if is_heavy(m, *shape)):
        us = times["f16", m][0]
        add([key for key in there if key[1] == m], f"--iterations={heavy_runs(a.seconds, us)}", "--duration=60",
            f"--warmUp={int(SETTLE * 1e6 / us)}")
    return found


def row_of(a, kind, m, shape, plan, ours, times, copy, tensor):
    """`ours`: what bench() found."""
    from gpu_timing import copy_time, read_time
    n, k = shape
    row = {"weights": kind, "n": n, "k": k, "m": m, "cublaslt_us": median(times["f16", m])}
    if kind != "f16":
        row["dequantize_us"] = median(times[kind, m])
    if isinstance(ours, list):
        each = [round(said["compute_us"]["median"], 2) for said in ours]
        us = row["sinter_us"] = median(each)
        if len(each) > 1:
            row["rounds"] = {"sinter_us": each, "dequantize_us": times[kind, m]}
        size = bytes_of(kind, m, n, k)
        row["launches"] = ours[0]["launches"]
        row["of_copy"] = round(size / us * 1e-6 / copy, 3)
        row["of_tensor"] = round(2 * m * n * k / us * 1e-6 / tensor, 3)
        if m == 1:
            row["copy_us"], row["read_us"] = copy_time(size, a.seconds), read_time(size, a.seconds)
            row["of_same_copy"] = round(row["copy_us"] / us, 3)
    else:
        row["failed"] = str(ours or plan)
    print(row, flush=True)
    return row


def geometric_mean(values):
    return round(math.exp(sum(map(math.log, values)) / len(values)), 3) if values else None


def summarise(rows):
    """The conditions, and the points that miss them."""
    done = [row for row in rows if "sinter_us" in row]

    def named(row, value):
        return f"{row['weights']} {row['n']}x{row['k']} m={row['m']}: {value:.2f}"
    large = [row for row in done if row["weights"] == "int8" and row["m"] == 1 and row["n"] * row["k"] >= LARGE]
    integers = [row for row in done if "dequantize_us" in row]
    against_float = [row["cublaslt_us"] / row["sinter_us"] for row in large]
    against_scratch = {id(row): row["dequantize_us"] / row["sinter_us"] for row in integers}
    by_kind = {}
    for kind in KINDS:
        mine = [row for row in done if row["weights"] == kind]
        by_kind[kind] = {f"m={m}": geometric_mean([row["cublaslt_us"] / row["sinter_us"] for row in mine
                                                   if row["m"] == m]) for m in sorted({row["m"] for row in mine})}
    return {"points": len(rows), "failed": len(rows) - len(done),
            "int8_m1_large_least_of_copy": min((row["of_copy"] for row in large), default=None),
            "int8_m1_large_least_of_same_copy": min((row["of_same_copy"] for row in large if "of_same_copy" in row),
                                                    default=None),
            "int8_m1_large_least_against_cublaslt_f16": round(min(against_float), 3) if large else None,
            "slower_than_dequantize": [named(row, against_scratch[id(row)]) for row in integers
                                       if against_scratch[id(row)] < 0.98],
            "int8_m1_large_below": [named(row, row["of_copy"]) for row in large if row["of_copy"] < 0.8],
            "cublaslt_f16_over_ours": by_kind}
