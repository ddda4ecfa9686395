#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks of layers with states, as transformers' PyTorch code spells them by chunks and torch.onnx writes that, on a GPU beside
torch.compile of the same module.

  run_state_networks.py --make FOLDER                     models without weights; needs transformers and onnx, no GPU
  run_state_networks.py --models FOLDER --out tests/perf/results/state_networks_h200.json

Weights are made from a seed, so that they need not travel: FOLDER/NAME.bin is written where it is missing. Times are microseconds with a
cold L2, in turns: ours of `sinter bench --deviceIo`, theirs between events and as a CUDA graph. Errors are ||a - b|| / ||b|| against the
module in float32.
"""
import argparse
import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import numpy as np
import torch
from torch import nn

from common import ROOT, Sinter, provenance, write

LEAST_BYTES = 1 << 14  # smaller weights stay in the model


class Residual(nn.Module):
    """Layers behind norms, added up."""

    def __init__(self, width, layers):
        super().__init__()
        from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextRMSNorm
        self.layers = nn.ModuleList(layers)
        self.norms = nn.ModuleList(Qwen3NextRMSNorm(width) for _ in layers)

    def forward(self, x):
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return x


class Hidden(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(inputs_embeds=x, use_cache=False).last_hidden_state


def mamba2(chunk_size):
    from transformers import Mamba2Config, Mamba2Model
    return Hidden(Mamba2Model(Mamba2Config(num_heads=24, head_dim=64, vocab_size=8, hidden_size=768, state_size=128, num_hidden_layers=12,
                                           expand=2, n_groups=1, chunk_size=chunk_size)))


def gated_delta():
    from transformers.models.qwen3_next.configuration_qwen3_next import Qwen3NextConfig
    from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet
    config = Qwen3NextConfig(hidden_size=1024, linear_num_key_heads=8, linear_num_value_heads=8, linear_key_head_dim=128,
                             linear_value_head_dim=128)
    return Residual(1024, [Qwen3NextGatedDeltaNet(config, i) for i in range(4)])


@dataclass(frozen=True)
class Network:
    module: Callable
    tokens: int
    width: int
    most_error: float = 5e-3

    def make(self, dtype):
        """All parameters are set here: releases of transformers draw theirs in different orders."""
        module, generator = self.module(), torch.Generator().manual_seed(5)
        with torch.no_grad():
            for name, tensor in sorted(module.named_parameters()):
                if tensor.dim() > 1:
                    fan_in = tensor[0].numel()
                    tensor.copy_(torch.randn(tensor.shape, generator=generator) * fan_in ** -0.5)
                elif name.endswith("dt_bias"):
                    tensor.copy_(torch.linspace(-5, -2, len(tensor)))
                elif name.endswith("A_log"):
                    tensor.copy_(torch.linspace(0, 2.5, len(tensor)))
                elif name.endswith("bias"):
                    tensor.zero_()
        return module.eval().to(dtype)

    def input(self):
        return torch.randn(1, self.tokens, self.width, generator=torch.Generator().manual_seed(6)).half()


NETWORKS = {
    "mamba2_12_layers": Network(lambda: mamba2(64), 256, 768),
    "mamba2_12_layers_one_chunk": Network(lambda: mamba2(256), 256, 768),  # transformers' own chunks
    "gated_delta_4_layers": Network(gated_delta, 1024, 1024),
}


def weight_file(name, folder):
    return folder / f"{name}.bin"


def save_model(name, network, folder):
    """The model, whose larger weights are parts of NAME.bin, and NAME.json: which tensors of the module those are."""
    import onnx
    from onnx import numpy_helper
    module = network.make(torch.float16)
    with torch.no_grad():
        program = torch.onnx.export(module, (network.input(),), dynamo=True, opset_version=20, verbose=False, input_names=["x"],
                                    output_names=["y"])
    model = program.model_proto
    del model.graph.value_info[:]
    for node in model.graph.node:
        del node.metadata_props[:]
    known = {}
    for key, tensor in module.state_dict().items():
        for turned in (False, True) if tensor.dim() == 2 else (False,):
            array = np.ascontiguousarray((tensor.T if turned else tensor).numpy())
            known[array.tobytes()] = (key, turned)
    parts, size = [], 0
    for tensor in model.graph.initializer:
        data = numpy_helper.to_array(tensor).tobytes()
        if len(data) < LEAST_BYTES or data not in known:  # masks, too, stay
            continue
        parts.append(known[data])
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", weight_file(name, folder).name), ("offset", size), ("length", len(data))):
            tensor.external_data.add(key=key, value=str(value))
        size += len(data)
    (folder / f"{name}.json").write_text(json.dumps(parts))
    (folder / f"{name}.onnx").write_bytes(model.SerializeToString())


def save_weights(name, network, folder):
    state = network.make(torch.float16).state_dict()
    with weight_file(name, folder).open("wb") as file:
        for key, turned in json.loads((folder / f"{name}.json").read_text()):
            file.write((state[key].T if turned else state[key]).contiguous().numpy().tobytes())


def error_of(found, expected):
    found, expected = (np.asarray(x, np.float64) for x in (found, expected))
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.sinter = Sinter(options.sinter, folder, target=options.target, precision=None)

    def plan(self, name, network):
        plan = self.folder / f"{name}.plan"
        if not plan.exists():
            if not weight_file(name, self.folder).exists():
                save_weights(name, network, self.folder)
            self.sinter.compile(self.folder / f"{name}.onnx", *self.options.option, name=name)
        return plan

    def ours(self, plan, x, expected):
        inputs, path = self.sinter.save({"x": x.numpy()}), self.folder / "out.npz"
        self.sinter.text("run", plan, "--inputs", inputs, "--outputs", path)
        with np.load(path) as file:
            return inputs, {"error": error_of(file["y"], expected)}

    def measure(self, plan, inputs):
        made = self.sinter.json("bench", plan, "--inputs", inputs, "--deviceIo", "--iterations=300", f"--duration={self.options.seconds}")
        return {"gpu_us": made["compute_us"]["median"], "wall_us": made["latency_us"]["median"], "launches": made["launches"]}


def measure_network(bench, name, network, record):
    from gpu_timing import measure
    x = network.input()
    device = "cuda"
    with torch.inference_mode():
        expected = network.make(torch.float32).to(device)(x.float().to(device)).cpu().numpy()
        module, given = network.make(torch.float16).to(device), x.to(device)
        record["eager"] = {"error": error_of(module(given).float().cpu().numpy(), expected)}
        programs = {}
        if bench.options.peer:
            try:
                compiled = torch.compile(module, dynamic=False)
                record["compiled"] = {"error": error_of(compiled(given).float().cpu().numpy(), expected)}
                programs["compiled"] = lambda: compiled(given)
            except Exception as error:  # noqa: BLE001: whatever the peer says
                record["compiled"] = {"failed": f"{type(error).__name__}: {str(error)[:300]}"}
        plan = bench.plan(name, network)
        inputs, record["sinter"] = bench.ours(plan, x, expected)
        programs["sinter"] = None
        times = {program: [] for program in programs}
        for _ in range(bench.options.rounds):
            for program, call in programs.items():
                times[program].append(bench.measure(plan, inputs) if call is None else measure(call, bench.options.seconds))
    for program, rounds in times.items():
        for key in ("gpu_us", "wall_us", "launches"):
            if key in rounds[0]:
                record[program][key] = round(statistics.median(each[key] for each in rounds), 2)
    if not record["sinter"]["error"] <= network.most_error:
        record["wrong"] = f"more than {network.most_error}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--target", default="cuda:sm_90")
    parser.add_argument("--option", action="append", default=[], help="one of `compile`")
    parser.add_argument("--no-peer", dest="peer", action="store_false")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--models", type=Path, help="folder that --make filled")
    parser.add_argument("--make", type=Path)
    parser.add_argument("--commit")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    names = options.networks.split(",")
    for name in set(names) - set(NETWORKS):
        parser.error(f"no network {name}; there are {', '.join(NETWORKS)}")
    if options.make:
        options.make.mkdir(parents=True, exist_ok=True)
        for name in names:
            save_model(name, NETWORKS[name], options.make)
        return
    if not options.models:
        parser.error("--models says where the models are")
    bench = Bench(options, options.models)
    result = {**provenance(options.commit), "torch": torch.__version__, "rounds": options.rounds, "rows": {}}
    for name in names:
        record = result["rows"].setdefault(name, {})
        try:
            measure_network(bench, name, NETWORKS[name], record)
        except Exception as error:  # noqa: BLE001
            record["failed"] = f"{type(error).__name__}: {str(error)[:300]}"
        print(name, json.dumps(record), flush=True)
        if options.out:
            write(options.out, result)


if __name__ == "__main__":
    main()
