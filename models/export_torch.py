#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports networks with seeded random weights from PyTorch, timm and transformers to ONNX.

  export_torch.py --out models/tiny                 tiny configurations, small enough to be committed
  export_torch.py --out FOLDER --full NAME...       the sizes that people use, for figures

For every network NAME.onnx and NAME.npz: inputs under their names, and PyTorch's float32 outputs as
expected/<output>. Needs torch, onnx, timm and transformers; what cannot be exported is reported and the
rest goes on.
"""
import argparse
import sys
import traceback
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import nn

import torch_networks

SEED = 7
MAX_TINY_BYTES = 1 << 20


def seeded(make):
    """The module, in eval mode, with reproducible weights; statistics of batch norms away from 0 and 1."""
    torch.manual_seed(SEED)
    module = make().eval()
    generator = torch.Generator().manual_seed(SEED)
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is not None:
            part.running_mean.normal_(0, 0.2, generator=generator)
            part.running_var.uniform_(0.5, 1.5, generator=generator)
    return module


def strip(path):
    """Leaves out what exporters write for debugging: stack traces of every node."""
    model = onnx.load(path)
    for node in model.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        del value.metadata_props[:]
    del model.graph.value_info[:], model.graph.metadata_props[:], model.metadata_props[:]
    onnx.save(model, path)


def export(name, network, folder, exporter):
    module = seeded(network.make)
    torch.manual_seed(SEED + 1)
    inputs = network.inputs()
    with torch.no_grad():
        outputs = module(*inputs.values())
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    names = network.outputs or [f"output{i}" if i else "output" for i in range(len(outputs))]
    path = folder / f"{name}.onnx"
    options = dict(input_names=list(inputs), output_names=names)
    if exporter == "dynamo":
        program = torch.onnx.export(module, tuple(inputs.values()), dynamo=True, opset_version=20,
                                    dynamic_shapes=network.dynamic_shapes(inputs), verbose=False, **options)
        program.save(str(path), external_data=False)
    else:
        torch.onnx.export(module, tuple(inputs.values()), str(path), dynamo=False, opset_version=17,
                          dynamic_axes=network.dynamic, **options)
    strip(path)
    arrays = {key: value.numpy() for key, value in inputs.items()}
    arrays.update({f"expected/{key}": value.numpy() for key, value in zip(names, outputs)})
    np.savez_compressed(folder / f"{name}.npz", **arrays)
    return path.stat().st_size


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--full", action="store_true", help="full sizes instead of tiny ones")
    p.add_argument("--exporter", choices=("dynamo", "torchscript"), default="dynamo")
    p.add_argument("names", nargs="*", help="default: all")
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    networks = torch_networks.networks(a.full)
    failed = 0
    for name in a.names or networks:
        try:
            size = export(name, networks[name], a.out, a.exporter)
            print(f"{name}: {size} bytes", flush=True)
            if not a.full and size > MAX_TINY_BYTES:
                print(f"{name}: larger than {MAX_TINY_BYTES} bytes", file=sys.stderr)
        except Exception:
            failed += 1
            print(f"{name}: FAILED\n{traceback.format_exc(limit=-4)}", file=sys.stderr, flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
