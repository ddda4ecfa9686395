#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention alone on a GPU, against torch's scaled_dot_product_attention with each of its backends.

  tests/perf/run_attention.py --out tests/perf/results/attention_h200.json
  tests/perf/run_attention.py --filter h64_s512 --schedule "attention rows=8x16 key_groups=1 keys=128 vector=8 stages=2"
  tests/perf/run_attention.py --precision fp8 --filter s4096 --out tests/perf/results/attention_fp8_h200.json
  tests/perf/run_attention.py --precision fp8_alone --filter s4096 --out tests/perf/results/attention_fp8_alone_h200.json

Plans are compiled from models of one Attention of opset 23. --precision fp8: what `compile --attention-precision fp8` makes of
that, which rounds queries, keys and values of 16 bits to e4m3 with one scale each in front of the attention; fp8_alone: that
attention without it, of operands that are e4m3, as FlashAttention-3's figures are. torch's stay those of 16 bits. Times are GPU microseconds with a cold L2, of
the work alone: Sinter's by `bench --deviceIo`, torch's by events. Errors are against float64, of one head:
relative to its norm, and the largest of an element, relative where that is above 1; torch's fastest backend in
the same measure. In bfloat16 rounding the exact result is 1.65e-3 of the norm already and rounding the weights
as much again, so that 2.2e-3 is what every kernel with products of bfloat16 has.
"""
import argparse
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from common import ROOT, provenance, write
from runs import Failed, Sinter

HEADS = {128: (12, 128), 256: (12, 48), 512: (12, 48, 128), 1024: (12, 48, 128), 2048: (12, 48), 4096: (12, 48),
         8192: (12,), 16384: (12,)}
BFLOAT = ((512, 48), (1024, 128), (4096, 12))  # (length, heads) that are measured in bfloat16 too
OTHER_WIDTHS = ((16, 4096, 4096, 40), (16, 4096, 77, 40), (16, 1024, 1024, 80), (16, 256, 256, 160), (16, 4096, 4096, 72),
                (16, 16384, 16384, 72), (12, 1024, 1024, 96), (24, 4096, 4096, 64),
                (12, 1500, 1500, 64))  # heads, rows, keys, width: diffusion, speech
WINDOWS = ((1536, 49, 32), (768, 64, 32))  # heads, rows, width: of windows, with a mask
DECODING = ((12, 12, 1024), (12, 12, 16384), (32, 8, 4096), (96, 96, 2048))  # heads, heads of keys, keys
MASKED = ((128, 384), (384, 96), (1024, 48))  # (length, heads) of batches of encoders
EXACT = 4096  # the longest rows that are checked


@dataclass
class Point:
    heads: int
    rows: int
    keys: int
    width: int
    causal: bool = False
    dtype: str = "f16"
    key_heads: int = 0
    mask: str = ""  # "keys": bool, of padded keys; "scores": added to every score

    def __post_init__(self):
        self.key_heads = self.key_heads or self.heads

    @property
    def name(self):
        rows = f"s{self.rows}" if self.rows == self.keys else f"q{self.rows}_k{self.keys}"
        heads = f"{self.heads}" if self.heads == self.key_heads else f"{self.heads}of{self.key_heads}"
        return f"{self.dtype}_bh{heads}_{rows}_h{self.width}{'_causal' if self.causal else ''}" + (
            f"_mask_{self.mask}" if self.mask else "")

    @property
    def flops(self):
        return 4 * self.heads * self.rows * self.keys * self.width // (2 if self.causal else 1)

    @property
    def shapes(self):
        return ((1, self.heads, self.rows, self.width),) + ((1, self.key_heads, self.keys, self.width),) * 2

    @property
    def mask_shape(self):
        return (1, 1, 1 if self.mask == "keys" else self.rows, self.keys)

    def save(self, path, wide=False):
        """`wide`: inputs and output are float32, cast around the attention: NumPy has no bfloat16."""
        kind = {"f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}[self.dtype]
        seen = TensorProto.FLOAT if wide else kind
        values = [helper.make_tensor_value_info(n, seen, s) for n, s in zip("qkv", self.shapes)]
        mask = ["mask"] if self.mask else []
        if mask:
            values.append(helper.make_tensor_value_info(
                "mask", TensorProto.BOOL if self.mask == "keys" else kind, self.mask_shape))
        inner = [n + ("_narrow" if wide else "") for n in "qkvy"]
        nodes = [helper.make_node("Attention", inner[:3] + mask, inner[3:], is_causal=int(self.causal))]
        if wide:
            nodes = [helper.make_node("Cast", [n], [n + "_narrow"], to=kind) for n in "qkv"] + nodes
            nodes.append(helper.make_node("Cast", inner[3:], ["y"], to=seen))
        graph = helper.make_graph(nodes, "attention", values,
                                  [helper.make_tensor_value_info("y", seen, self.shapes[0])])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11), path)


    def takes_eight_bits(self):
        return self.width % 16 == 0 and 48 <= self.width <= 128 and self.rows > 1 and self.heads == self.key_heads

    def save_eight_bits(self, path, alone):
        """Graph text. Scales suit normal deviates, of which none is beyond 6."""
        batch, rows, keys, width = f"1, {self.heads}", self.rows, self.keys, self.width
        columns = (keys + 15) // 16 * 16
        wide, scale = self.dtype, 6 / 448
        lines = ["%scale = const f32[] {" + repr(scale) + "}"]

        def rounded(name):
            lines.extend([f"%{name}w = Cast(%{name}) {{to = f32}}", f"%{name}d = Quotient(%{name}w, %scale)",
                          f"%{name}8 = Cast(%{name}d) {{to = f8e4m3fn}}"])
        if alone:
            inputs = {"q8": f"f8e4m3fn[{batch}, {rows}, {width}]", "k8": f"f8e4m3fn[{batch}, {keys}, {width}]",
                      "vt": f"f8e4m3fn[{batch}, {width}, {columns}]"}
        else:
            inputs = {"q": f"{wide}[{batch}, {rows}, {width}]", "k": f"{wide}[{batch}, {keys}, {width}]",
                      "v": f"{wide}[{batch}, {keys}, {width}]"}
            for name in "qkv":
                rounded(name)
            padded = "v8"
            if columns != keys:
                padded = "vp"
                lines.append(f"%vp = Pad(%v8) {{begins = [0, 0, 0, 0], ends = [0, 0, {columns - keys}, 0], fill = 0}}")
            lines.append(f"%vt = Transpose(%{padded}) {{perm = [0, 1, 3, 2]}}")
        if self.mask:
            inputs["mask"] = f"{'bool' if self.mask == 'keys' else wide}[{', '.join(map(str, self.mask_shape))}]"
        lines += [f"%s = Attention(%q8, %k8, %vt{', %mask' if self.mask else ''}) "
                  f"{{scale = {width ** -0.5 * scale * scale!r}, causal = {int(self.causal)}}}",
                  "%m = Mul(%s, %scale)", f"%y = Cast(%m) {{to = {wide}}}", "return y = %y"]
        signature = ", ".join(f"%{name}: {kind}" for name, kind in inputs.items())
        path.write_text(f"graph @attention({signature}) {{\n  " + "\n  ".join(lines) + "\n}\n")


def points():
    for rows, all_heads in HEADS.items():
        for heads in all_heads:
            for width in (64, 128):
                for causal in (False, True):
                    for dtype in ("f16", "bf16") if (rows, heads) in BFLOAT else ("f16",):
                        yield Point(heads, rows, rows, width, causal, dtype)
    for rows, heads in MASKED:
        for width in (64, 128):
            for mask in ("keys", "scores"):
                yield Point(heads, rows, rows, width, mask=mask)
    for heads, rows, keys, width in OTHER_WIDTHS:
        yield Point(heads, rows, keys, width)
    for heads, rows, width in WINDOWS:
        yield Point(heads, rows, rows, width, mask="scores")
    for heads, key_heads, keys in DECODING:
        for width in (64, 128):
            yield Point(heads, 1, keys, width, key_heads=key_heads)


def tensors(point):
    import torch
    torch.manual_seed(0)
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[point.dtype]
    result = [torch.randn(shape, device="cuda", dtype=torch.float32).to(dtype) for shape in point.shapes]
    if point.mask == "keys":
        result.append((torch.arange(point.keys, device="cuda") < point.keys * 7 // 8).expand(point.mask_shape))
    elif point.mask:
        result.append(torch.randn(point.mask_shape, device="cuda").to(dtype))
    return result


def torch_times(point, seconds):
    """Microseconds by backend; what a backend says if it does not take the problem."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    from gpu_timing import measure
    backends = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
    if point.flops < 5e9:
        backends["efficient"] = SDPBackend.EFFICIENT_ATTENTION
    q, k, v, mask = (tensors(point) + [None])[:4]
    result = {}
    for name, backend in backends.items():
        grouped = point.key_heads != point.heads

        def call():
            return scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=point.causal, enable_gqa=grouped)
        try:
            with torch.inference_mode(), sdpa_kernel(backend):
                result[name] = measure(call, seconds)["gpu_us"]
        except RuntimeError as error:
            result[name] = str(error).splitlines()[0][:80]
    return result


def errors(sinter, plan, point, backend):
    """Of the last head, against float64: {"sinter": and "torch": (relative to the norm, largest)}."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention
    operands = tensors(point)
    feeds = {name: (t.float() if t.dtype == torch.bfloat16 else t).cpu().numpy()
             for name, t in zip(("q", "k", "v", "mask"), operands)}
    found = {"sinter": sinter.run(plan, feeds)["y"][0, -1]}
    q, k, v, mask = (operands + [None])[:4]
    kind = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
            "efficient": SDPBackend.EFFICIENT_ATTENTION}[backend]
    with torch.inference_mode(), sdpa_kernel(kind):
        theirs = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=point.causal,
                                              enable_gqa=point.key_heads != point.heads)
    found["torch"] = theirs[0, -1].float().cpu().numpy()
    q, k, v = (t[0, -1].double() for t in (q, k, v))
    scores = q @ k.T * point.width ** -0.5
    if point.causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -float("inf"))
    if point.mask == "keys":
        scores = scores.masked_fill(~mask[0, 0], -float("inf"))
    elif point.mask:
        scores = scores + mask[0, 0]
    expected = (scores.softmax(-1) @ v).cpu().numpy()
    result = {}
    for name, values in found.items():
        difference = np.asarray(values, np.float64) - expected
        largest = np.abs(difference) / np.maximum(np.abs(expected), 1)
        result[name] = [float(np.linalg.norm(difference) / np.linalg.norm(expected)), float(largest.max())]
    return result


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--commit", help="the commit measured, where there is no git checkout")
    p.add_argument("--filter", default="", help="names that contain one of these texts, separated by commas")
    p.add_argument("--schedule", help="the one schedule of the kernel, as `inspect` prints them")
    p.add_argument("--precision", default="model", choices=("model", "fp8", "fp8_alone"), help="see above")
    p.add_argument("--target", default="cuda:sm_90")
    p.add_argument("--seconds", type=float, default=0.1, help="about so long for each time of torch's")
    p.add_argument("--plans", help="folder where plans lie or are put; compiles only what is missing")
    p.add_argument("--compile-only", action="store_true", help="make the plans and stop: this needs no GPU")
    p.add_argument("--jobs", type=int, default=8, help="plans to compile at once")
    p.add_argument("--out", default=str(ROOT / "tests" / "perf" / "results" / "attention_h200.json"))
    a = p.parse_args()
    chosen = [x for x in points() if any(text in x.name for text in a.filter.split(","))]
    eight_bits = a.precision != "model"
    if eight_bits:
        chosen = [x for x in chosen if x.takes_eight_bits()]
    options = [f"--schedule={a.schedule}"] if a.schedule else []
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(a.plans or tmp)
        folder.mkdir(parents=True, exist_ok=True)
        sinter = Sinter(a.sinter, folder, target=a.target)

        def compiled(point):
            name = point.name if not eight_bits else f"{point.name}_{a.precision}"
            plan = folder / f"{name}.plan"
            if not plan.exists():
                path = folder / f"{name}.{'txt' if eight_bits else 'onnx'}"
                if eight_bits:
                    point.save_eight_bits(path, a.precision == "fp8_alone")
                else:
                    point.save(path)
                sinter.compile(path, *options)
            return plan
        with ThreadPoolExecutor(a.jobs) as pool:
            plans = list(pool.map(compiled, chosen))
        if a.compile_only:
            return
        result = {**provenance(a.commit), "schedule": a.schedule, "precision": a.precision, "points": {}}
        for point, plan in zip(chosen, plans):
            bench = sinter.json("bench", plan, "--deviceIo", "--iterations=60", "--duration=0.3", "--warmUp=3")
            row = {"sinter_us": bench["compute_us"]["median"], "torch_us": torch_times(point, a.seconds)}
            times = {n: t for n, t in row["torch_us"].items() if not isinstance(t, str)}
            best = min(times, key=times.get)
            row.update(best=best, ratio=round(times[best] / row["sinter_us"], 3),
                       tflops=round(point.flops / row["sinter_us"] * 1e-6, 1))
            measured = a.precision == "model" or (a.precision == "fp8" and point.dtype == "f16")
            if measured and point.rows <= EXACT and (point.heads <= 16 or point.dtype == "bf16" or point.mask):
                try:
                    if point.dtype == "bf16":
                        wide = folder / f"{point.name}_wide.onnx"
                        point.save(wide, wide=True)
                        plan = sinter.compile(wide, *options)
                    row["errors"] = errors(sinter, plan, point, best)
                except Failed as refused:
                    row["errors"] = str(refused)
            result["points"][point.name] = row
            print(f"{point.name}: {row['sinter_us']:.1f} us, {row['tflops']} TFLOP/s, {best} {times[best]:.1f} us, "
                  f"{row['ratio']}x, errors {row.get('errors')}", flush=True)
    write(a.out, result)


if __name__ == "__main__":
    main()
