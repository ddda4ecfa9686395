#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Layers with a state of fixed size on a GPU, beside flash-linear-attention where it can be imported (`fla`), else beside
torch.compile of the chunked recurrence.

  run_linear_attention.py --out tests/perf/results/linear_attention_h200.json
  run_linear_attention.py --rows gated_2048_h32,token_b1 --plans FOLDER [--option --schedule="linear_attention slice=64"]
  run_linear_attention.py --make FOLDER        models and plans, without a GPU
  run_linear_attention.py --check              tiny ones on the CPU, results only

Models are ONNX graphs of one LinearAttention (opset 27). Times are microseconds with a cold L2, in turns: ours of `sinter bench
--deviceIo`, theirs between events and as a CUDA graph. Errors are ||a - b|| / ||b|| against the recurrence token by token in float32.
`copy_us`: all operands and results at the rate of a copy.
"""
import argparse
import json
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from common import ROOT, Sinter, provenance, write

ONNX_TYPES = {torch.float32: 1, torch.float16: 10, torch.bfloat16: 16}


@dataclass(frozen=True)
class Row:
    batch: int
    tokens: int
    heads: int
    keys: int = 128
    values: int = 128
    rule: str = "gated_delta"
    by_channel: bool = False
    dtype: torch.dtype = torch.bfloat16
    most_error: float = 0.02

    @property
    def delta(self):
        return "delta" in self.rule

    def tiny(self):
        return Row(1, min(self.tokens, 70), 2, 64, 32, self.rule, self.by_channel, self.dtype, self.most_error)


ROWS = {
    "gated_2048_h16": Row(1, 2048, 16), "gated_2048_h32": Row(1, 2048, 32),
    "gated_16384_h16": Row(1, 16384, 16), "gated_16384_h32": Row(1, 16384, 32),
    "kimi_2048_h12": Row(1, 2048, 12, by_channel=True),
    "mamba2_256_h24": Row(1, 256, 24, 128, 64, "gated", dtype=torch.float16, most_error=5e-3),
    "gated_2048_h32_f16": Row(1, 2048, 32, dtype=torch.float16, most_error=5e-3),
    "token_b1": Row(1, 1, 32), "token_b256": Row(256, 1, 32),
}


def inputs(row, device):
    """Keys of length 1; gates as trained ones are: most of the state lives on for tens of tokens."""
    generator = torch.Generator(device).manual_seed(7)

    def draw(*shape):
        return torch.randn(row.batch, row.tokens, row.heads, *shape, device=device, generator=generator)
    made = {"query": draw(row.keys).to(row.dtype), "key": F.normalize(draw(row.keys), dim=-1).to(row.dtype),
            "value": draw(row.values).to(row.dtype),
            "past_state": 0.3 * torch.randn(row.batch, row.heads, row.keys, row.values, device=device, generator=generator),
            "decay": F.logsigmoid(draw(*([row.keys] if row.by_channel else [])) + 3).to(row.dtype)}
    if row.delta:
        made["beta"] = torch.sigmoid(draw()).to(row.dtype)
    return made


def exact(row, given):
    """The recurrence in float32: out and the last state."""
    q, k, v, state, decay = (given[name].float() for name in ("query", "key", "value", "past_state", "decay"))
    state, outs = state.clone(), []
    gates = decay.exp() if row.by_channel else decay.exp()[..., None]
    for t in range(row.tokens):
        state *= gates[:, t, :, :, None]
        update = v[:, t]
        if row.delta:
            update = given["beta"][:, t, :, None].float() * (update - torch.einsum("bhk,bhkv->bhv", k[:, t], state))
        state += k[:, t, :, :, None] * update[:, :, None]
        outs.append(torch.einsum("bhk,bhkv->bhv", q[:, t], state))
    return torch.stack(outs, 1) * row.keys ** -0.5, state


def chunked(row):
    """The recurrence by chunks, as models spell it in PyTorch. By channel, chunks are short: gates are divided."""
    size = 16 if row.by_channel else 64

    def call(query, key, value, past_state, decay, beta=None):
        tokens = query.shape[1]
        pad = -tokens % size

        def chunks(x):
            x = x.transpose(1, 2).float()
            x = F.pad(x, (0, 0, 0, pad) if x.dim() == 4 else (0, pad))
            return x.unflatten(2, (-1, size))
        q, k, v = chunks(query) * row.keys ** -0.5, chunks(key), chunks(value)
        sums = chunks(decay).cumsum(3)
        sums = sums if row.by_channel else sums[..., None]
        grown, gone = k * (-sums).exp() if row.by_channel else k, k * sums.exp()
        between = 1.0 if row.by_channel else (sums - sums.transpose(-1, -2)).tril().exp()
        scores = ((q * sums.exp() if row.by_channel else q) @ grown.transpose(-1, -2) * between).tril()
        update, erased = v, None
        if beta is not None:
            b = chunks(beta)[..., None]
            a = (b * ((gone if row.by_channel else k) @ grown.transpose(-1, -2)) * between).tril(-1)
            inverse = torch.linalg.solve_triangular(a + torch.eye(size, device=a.device),
                                                    torch.eye(size, device=a.device), upper=False, unitriangular=True)
            update, erased = inverse @ (b * v), inverse @ (b * gone)
        left = k * (sums[..., -1:, :] - sums).exp()
        state, outs = past_state, []
        for c in range(q.shape[2]):
            u = update[:, :, c] if erased is None else update[:, :, c] - erased[:, :, c] @ state
            outs.append((q[:, :, c] * sums[:, :, c].exp()) @ state + scores[:, :, c] @ u)
            state = state * sums[:, :, c, -1].exp()[..., None] + left[:, :, c].transpose(-1, -2) @ u
        return torch.cat(outs, 2)[:, :, :tokens].transpose(1, 2).to(query.dtype), state
    return call


def flash_linear_attention(row):
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule
    if not row.delta:
        from fla.ops.simple_gla import chunk_simple_gla
        return lambda query, key, value, past_state, decay: chunk_simple_gla(
            query, key, value, g=decay, scale=row.keys ** -0.5, initial_state=past_state, output_final_state=True)
    if row.by_channel:
        from fla.ops.kda import chunk_kda
        rule = chunk_kda
    else:
        rule = fused_recurrent_gated_delta_rule if row.tokens == 1 else chunk_gated_delta_rule
    return lambda query, key, value, past_state, decay, beta: rule(
        query, key, value, g=decay, beta=beta, scale=row.keys ** -0.5, initial_state=past_state, output_final_state=True)


PEERS = {"fla": flash_linear_attention,
         "compiled": lambda row: torch.compile(chunked(row), dynamic=False)}


def save_model(row, path):
    import onnx
    from onnx import helper
    kind = ONNX_TYPES[row.dtype]
    flat = {"query": row.heads * row.keys, "key": row.heads * row.keys, "value": row.heads * row.values}
    given = [helper.make_tensor_value_info(name, kind, [row.batch, row.tokens, size]) for name, size in flat.items()]
    state = [row.batch, row.heads, row.keys, row.values]
    given += [helper.make_tensor_value_info("past_state", 1, state),
              helper.make_tensor_value_info("decay", kind, [row.batch, row.tokens, row.heads * (row.keys if row.by_channel else 1)])]
    if row.delta:
        given.append(helper.make_tensor_value_info("beta", kind, [row.batch, row.tokens, row.heads]))
    made = [helper.make_tensor_value_info("out", kind, [row.batch, row.tokens, row.heads * row.values]),
            helper.make_tensor_value_info("present_state", 1, state)]
    nodes = [helper.make_node("LinearAttention", [each.name for each in given], ["out", "present_state"],
                              q_num_heads=row.heads, kv_num_heads=row.heads, update_rule=row.rule, scale=row.keys ** -0.5)]
    graph = helper.make_graph(nodes, "layer", given, made)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 27)], ir_version=11), path)


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.sinter = Sinter(options.sinter, folder, target=options.target, precision=None)

    def plan(self, name, row):
        plan = self.folder / f"{name}.plan"
        if not plan.exists():
            save_model(row, self.folder / f"{name}.onnx")
            self.sinter.compile(self.folder / f"{name}.onnx", *self.options.option, name=name)
        return plan

    def save(self, given):
        arrays = {}
        for name, tensor in given.items():
            flat = tensor if name == "past_state" or tensor.dim() < 4 else tensor.flatten(2)
            arrays[name] = (flat.view(torch.uint16) if flat.dtype == torch.bfloat16 else flat).cpu().numpy()
        return self.sinter.save(arrays)

    def results(self, plan, row, given):
        path = self.folder / "out.npz"
        self.sinter.text("run", plan, "--inputs", self.save(given), "--outputs", path)
        with np.load(path) as file:
            out, state = file["out"], file["present_state"]
        if out.dtype == np.uint16:
            out = (out.astype(np.uint32) << 16).view(np.float32)
        return out.reshape(row.batch, row.tokens, row.heads, row.values), state

    def measure(self, plan, given):
        made = self.sinter.json("bench", plan, "--inputs", self.save(given), "--deviceIo", "--iterations=300",
                                f"--duration={self.options.seconds}")
        return {"gpu_us": made["compute_us"]["median"], "wall_us": made["latency_us"]["median"], "launches": made["launches"]}


def error_of(found, expected):
    found, expected = (np.asarray(x, np.float64) for x in (found, expected))
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def errors(found, expected):
    return {name: error_of(a, b.cpu().numpy()) for name, a, b in zip(("error", "state_error"), found, expected)}


def reason(error):
    return f"{type(error).__name__}: {' | '.join(str(error).strip().splitlines())[:400]}"


def measure_row(bench, name, row, record):
    from gpu_timing import copy_rate, measure
    with torch.inference_mode():
        given = inputs(row, "cuda")
        expected = exact(row, given)
        size = sum(t.nbytes for t in given.values()) + given["past_state"].nbytes + given["value"].nbytes
        record["copy_us"] = round(size / copy_rate() * 1e-6, 2)
        programs = {}
        for peer in bench.options.peers:
            try:
                call = PEERS[peer](row)
                found = call(**given)
                record[peer] = errors([t.float().cpu().numpy() for t in found[:2]], expected)
                programs[peer] = lambda call=call: call(**given)
                break  # the first that works
            except Exception as error:  # noqa: BLE001: whatever the peer says
                record[peer] = {"failed": reason(error)}
        try:
            plan = bench.plan(name, row)
            record["sinter"] = errors(bench.results(plan, row, given), expected)
            programs["sinter"] = None
        except Exception as error:  # noqa: BLE001
            record["sinter"] = {"failed": reason(error)}
        times = {program: [] for program in programs}
        for _ in range(bench.options.rounds):
            for program, call in programs.items():
                times[program].append(bench.measure(plan, given) if call is None else measure(call, bench.options.seconds))
        for program, rounds in times.items():
            for key in ("gpu_us", "wall_us", "launches"):
                if key in rounds[0]:
                    record[program][key] = round(statistics.median(each[key] for each in rounds), 2)
            record[program]["rounds"] = [round(each["gpu_us"], 2) for each in rounds]
    if "gpu_us" in record["sinter"]:
        for peer in set(programs) - {"sinter"}:
            record.update(best=peer, best_us=record[peer]["gpu_us"])


def check(bench, names):
    wrong = 0
    for name in names:
        row = ROWS[name].tiny()
        given = inputs(row, "cpu")
        expected = exact(row, given)
        peer = errors([t.float().numpy() for t in chunked(row)(**given)], expected)
        ours = errors(bench.results(bench.plan(name, row), row, given), expected)
        bad = not max(ours.values()) <= row.most_error
        wrong += bad
        print(f"{name}: {ours}; PyTorch by chunks {peer}{' WRONG' if bad else ''}", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--peers", default=",".join(PEERS), help="the first that works is measured; or none")
    parser.add_argument("--target", default="cuda:sm_90")
    parser.add_argument("--option", action="append", default=[], help="one of `compile`")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--plans", type=Path, help="folder of models and plans, which are taken from it if they are there")
    parser.add_argument("--make", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--commit")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    names = options.rows.split(",")
    for name in set(names) - set(ROWS):
        parser.error(f"no row {name}; there are {', '.join(ROWS)}")
    options.peers = [] if options.peers == "none" else options.peers.split(",")
    if options.check:
        options.target = "cpu"
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.make or options.plans or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        bench = Bench(options, folder)
        if options.make:
            for name in names:
                print(bench.plan(name, ROWS[name]), flush=True)
            return
        if options.check:
            raise SystemExit(min(check(bench, names), 1))
        result = {**provenance(options.commit), "torch": torch.__version__, "rounds": options.rounds, "rows": {}}
        for name in names:
            record = result["rows"].setdefault(name, {})
            try:
                measure_row(bench, name, ROWS[name], record)
            except Exception as error:  # noqa: BLE001
                record["failed"] = reason(error)
            print(name, json.dumps(record), flush=True)
            if options.out:
                write(options.out, result)


if __name__ == "__main__":
    main()
