#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers on a GPU in float16, against PyTorch eager (cuDNN) and torch.compile in the same run.

  run_recurrent.py --make DIR [--schedule NAME=TEXT ..]   writes models and plans; needs no GPU
  run_recurrent.py --made DIR --out tests/perf/results/recurrent_h200.json
  run_recurrent.py --cpu 2 --out tests/perf/results/recurrent_cpu.json    two threads, float32, against ONNX Runtime

Each layer is measured as one kernel (`sinter`, if its weights fit on chip) and as the loop of kernels that it is
without one (`loop`: a plan that is for sm_80, too, where there are no clusters). Times are microseconds with a cold L2:
of the GPU, between events, and of one synchronised call on the host's clock. Errors are relative to the norm, against
PyTorch in float32, with PyTorch's own in float16 beside them. Weights are multiples of 1/8 of a deviation, so that
plans pack well.
"""
import argparse
import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common import ROOT, provenance, write
from runs import Failed, Sinter, relative_error


@dataclass
class Workload:
    cell: str
    layers: int
    units: int
    inputs: int
    directions: int
    batch: int
    steps: int

    @property
    def gates(self):
        return {"LSTM": 4, "GRU": 3}[self.cell]

    def shape(self, layer):
        return self.inputs if layer == 0 else self.units * self.directions

    def weights(self, layer):
        """W, R and B of one layer, in ONNX's order of gates."""
        random = np.random.default_rng(layer + 1)
        rows = self.gates * self.units

        def draw(*shape):
            return (random.integers(-8, 9, shape) / np.float32(8 * np.sqrt(self.units))).astype(np.float32)

        return draw(self.directions, rows, self.shape(layer)), draw(self.directions, rows, self.units), \
            draw(self.directions, 2 * rows)

    def x(self):
        return (np.random.default_rng(0).integers(-8, 9, (self.steps, self.batch, self.inputs)) / 4).astype(np.float32)


WORKLOADS = {
    "lstm_2x512_bi_b1_s64": Workload("LSTM", 2, 512, 512, 2, 1, 64),
    "gru_1x256_b8_s1000": Workload("GRU", 1, 256, 256, 1, 8, 1000),
    "lstm_1x128_b32_s200": Workload("LSTM", 1, 128, 128, 1, 32, 200),
    "gru_2x384_bi_b1_s100": Workload("GRU", 2, 384, 384, 2, 1, 100),
    "lstm_1x512_b64_s100": Workload("LSTM", 1, 512, 512, 1, 64, 100),
    "gru_1x256_b256_s100": Workload("GRU", 1, 256, 256, 1, 256, 100),
    "lstm_3x1024_b4_s50": Workload("LSTM", 3, 1024, 1024, 1, 4, 50),
}


def save(work, path):
    """The steps are a symbol, as in a model that takes any sequence."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    nodes, constants, x = [], [], "x"
    for layer in range(work.layers):
        names = [f"{name}{layer}" for name in "wrb"]
        constants += [numpy_helper.from_array(value, name) for value, name in zip(work.weights(layer), names)]
        attributes = {"direction": "bidirectional" if work.directions == 2 else "forward", "hidden_size": work.units}
        if work.cell == "GRU":
            attributes["linear_before_reset"] = 1
        nodes += [helper.make_node(work.cell, [x, *names], [f"y{layer}"], **attributes),
                  helper.make_node("Transpose", [f"y{layer}"], [f"t{layer}"], perm=[0, 2, 1, 3]),
                  helper.make_node("Reshape", [f"t{layer}", "flat"], [f"x{layer + 1}"])]
        x = f"x{layer + 1}"
    constants.append(numpy_helper.from_array(np.array([0, 0, work.directions * work.units]), "flat"))
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["steps", work.batch, work.inputs])
    made = helper.make_tensor_value_info(x, TensorProto.FLOAT, ["steps", work.batch, work.directions * work.units])
    graph = helper.make_graph(nodes, "recurrent", [given], [made], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def make(a, chosen):
    a.make.mkdir(parents=True, exist_ok=True)
    extra = [each.split("=", 1) for each in a.schedule]
    for name, work in chosen.items():
        model = a.make / f"{name}.onnx"
        save(work, model)
        Sinter(a.sinter, a.make, "cuda:sm_90", "fp16").compile(model, name=f"{name}.sinter")
        Sinter(a.sinter, a.make, "cuda:sm_90,sm_80", "fp16").compile(model, name=f"{name}.loop")
        for i, (of, text) in enumerate(extra):
            if of == name:
                Sinter(a.sinter, a.make, "cuda:sm_90", "fp16").compile(
                    model, f"--schedule={text}", name=f"{name}.{text.replace(' ', '_').replace('=', '-')}")
        model.unlink()


def torch_module(work):
    import torch
    module = getattr(torch.nn, work.cell)(work.inputs, work.units, work.layers, bidirectional=work.directions == 2)
    order = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2)}[work.cell]  # torch's gates in ONNX's
    with torch.no_grad():
        for layer in range(work.layers):
            w, r, b = work.weights(layer)
            for d in range(work.directions):
                suffix = f"_l{layer}" + ("_reverse" if d else "")
                parts = {"weight_ih": w[d], "weight_hh": r[d], "bias_ih": b[d, :len(b[d]) // 2],
                         "bias_hh": b[d, len(b[d]) // 2:]}
                for name, value in parts.items():
                    gates = np.split(value, work.gates)
                    getattr(module, name + suffix).copy_(torch.from_numpy(np.concatenate([gates[g] for g in order])))
    return module.cuda().eval()


def torch_row(work, seconds):
    import torch

    from gpu_timing import measure
    x = torch.from_numpy(work.x()).cuda()
    module = torch_module(work)
    row = {}
    with torch.inference_mode():
        exact = module(x)[0].cpu().numpy()
        module, x = module.half(), x.half()
        module.flatten_parameters()
        row["torch_error"] = relative_error(module(x)[0].float().cpu().numpy(), exact)
        row["torch"] = measure(lambda: module(x), seconds)
        try:
            compiled = torch.compile(module)
            row["torch_compile"] = measure(lambda: compiled(x), seconds)
        except Exception as error:  # noqa: BLE001: whatever the peer says
            row["torch_compile"] = str(error).splitlines()[0][:120]
    return row, exact


def sinter_row(a, work, plan, exact):
    feeds = {"x": work.x()}
    runner = Sinter(a.sinter, a.made, "cuda", "fp16")
    found = list(runner.run(plan, feeds).values())[0]
    timed = runner.json("bench", plan, "--inputs", runner.save(feeds), "--deviceIo", f"--duration={a.seconds}",
                        "--iterations=200")
    return {"gpu_us": round(timed["compute_us"]["median"], 2), "p10_us": round(timed["compute_us"]["p10"], 2),
            "p90_us": round(timed["compute_us"]["p90"], 2), "wall_us": round(timed["latency_us"]["median"], 2),
            "launches": timed["launches"], "error": relative_error(found, exact)}


def on_cpu(a, chosen):
    """Of each layer the times of both, which take turns."""
    import onnxruntime

    from run_cpu import against_onnx_runtime
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, work in chosen.items():
            model = Path(folder) / f"{name}.onnx"
            save(work, model)
            row = against_onnx_runtime(a.sinter, Path(folder), a.cpu, model, {"x": work.x()}, turns=5, runs=20)
            rows[name] = row
            print(f"{name}: {row['sinter_us']} us, ONNX Runtime {row['onnxruntime_us']} us, {row['ratio']}x its time, "
                  f"best turns {row['ratio_of_best_turns']}x", flush=True)
    if a.out:
        write(a.out, provenance(a.commit) | {"threads": a.cpu, "onnxruntime": onnxruntime.__version__, "rows": rows})


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--make", type=Path)
    p.add_argument("--made", type=Path)
    p.add_argument("--cpu", type=int, default=0, metavar="THREADS")
    p.add_argument("--schedule", action="append", default=[], help="NAME=TEXT: one more plan of a workload")
    p.add_argument("--filter", default="")
    p.add_argument("--seconds", type=float, default=0.5)
    p.add_argument("--commit")
    p.add_argument("--out", type=Path)
    a = p.parse_args()
    chosen = {name: work for name, work in WORKLOADS.items() if a.filter in name}
    if a.make:
        make(a, chosen)
        return
    if a.cpu:
        on_cpu(a, chosen)
        return
    rows = {}
    for name, work in chosen.items():
        plans = sorted(a.made.glob(f"{name}.*.plan"))
        if not plans:
            continue
        row, exact = torch_row(work, a.seconds)
        for plan in plans:
            key = plan.name[len(name) + 1:-len(".plan")]
            try:
                row[key] = sinter_row(a, work, plan, exact)
            except Failed as error:
                row[key] = {"failed": str(error)[:500]}
            print(name, key, json.dumps(row[key]), flush=True)
        print(name, "torch", json.dumps({k: row[k] for k in ("torch", "torch_compile", "torch_error")}), flush=True)
        rows[name] = row
    if a.out:
        import torch
        write(a.out, provenance(a.commit) | {"cuda": torch.version.cuda, "torch": torch.__version__, "rows": rows})


if __name__ == "__main__":
    main()
