# SPDX-License-Identifier: Apache-2.0
"""The exporters of the zoo: each writes ONNX files of one row and says what is expected of them at four sizes."""
import shutil
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch

from export_torch import seeded, strip
from zoo_rows import SIZES, Exported

QUANTISED_TOLERANCE = 0.03  # one step of a rounded value more or less, of 255


class Unusable(Exception):
    """The exporter wrote a file that ONNX Runtime does not run as the module says."""


def session(path, optimise=True):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if not optimise:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run(path, feeds, optimise=True):
    made = session(path, optimise)
    names = [o.name for o in made.get_outputs()]
    known = {i.name for i in made.get_inputs()}
    return [dict(zip(names, made.run(None, {k: v for k, v in feed.items() if k in known}))) for feed in feeds]


def distance(found, expected):
    if found.shape != expected.shape:
        return float("inf")
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    return float(np.linalg.norm(found - expected) / (np.linalg.norm(expected) or 1))


def check(path, feeds, expected, tolerance):
    """Raises if ONNX Runtime gives something else: such a file is the exporter's defect."""
    for i, (found, wanted) in enumerate(zip(run(path, feeds), expected)):
        for name, value in wanted.items():
            if not distance(found[name], value) <= tolerance:
                raise Unusable(f"ONNX Runtime is off at size {i}: {name} {found[name].shape} for {value.shape}, "
                               f"{distance(found[name], value):.1e}")


def torch_results(row, module):
    wrapped = Exported(row, module).eval()
    feeds = [row.feeds(i) for i in range(SIZES)]
    with torch.no_grad():
        results = [wrapped.named(*(x.clone() for x in feed.values())) for feed in feeds]
    return (wrapped, feeds, [{k: v.numpy() for k, v in feed.items()} for feed in feeds],
            [{k: v.numpy() for k, v in r.items()} for r in results])


def narrowed(module, dtype):
    """The module in a 16-bit type, as from_pretrained makes it: frequencies of rotary embeddings stay float32."""
    kept = {name: buffer.clone() for name, buffer in module.named_buffers() if "inv_freq" in name}
    module = module.to(dtype)
    for name, buffer in kept.items():
        owner, _, leaf = name.rpartition(".")
        module.get_submodule(owner).register_buffer(leaf, buffer, persistent=False)
    return module


def half_errors(row):
    """PyTorch's own errors in 16-bit types, relative to its float32: {type: the worst output at each size}, or why not."""
    feeds = [row.feeds(i) for i in range(SIZES)]
    with torch.no_grad():
        module = Exported(row, seeded(row.make)).eval()
        exact = [module.named(*(x.clone() for x in feed.values())) for feed in feeds]
        errors = {}
        for name, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
            try:
                module = Exported(row, narrowed(seeded(row.make), dtype)).eval()
                found = [module.named(*(x.to(dtype) if x.is_floating_point() and not row.inputs[k].kind.startswith("late")
                                        else x.clone() for k, x in feed.items())) for feed in feeds]
                errors[name] = [max(distance(f[k].float().numpy(), v.numpy()) for k, v in e.items()
                                    if v.is_floating_point()) for f, e in zip(found, exact)]
            except Exception as e:  # an operator that PyTorch does not have in this type on a CPU
                errors[name] = f"{type(e).__name__}: {str(e)[:200]}"
    return errors


def eager(module):
    """Attention spelled out, where transformers offers a choice: some exporters cannot trace the other."""
    for part in [module, *module.modules()]:
        if hasattr(part, "set_attn_implementation"):
            part.set_attn_implementation("eager")
            return True
    return False


def attempts(row, exporter):
    """What a user tries one after the other: the model as it is, then with its attention spelled out; for
    torch.export symbols with names, then those that it finds."""
    for spelled_out in (False, True):
        for named in (True, False) if exporter == "dynamo" else (True,):
            yield spelled_out, named


def dynamo_shapes(row, named):
    made = {}

    def dim(symbol):
        return made.setdefault(symbol, torch.export.Dim(symbol)) if named else torch.export.Dim.AUTO
    rows = tuple({i: dim(s) for i, s in t.dynamic().items()} or None for t in row.inputs.values())
    return {"tensors": rows}


def export_torch(row, exporter, path):
    """Writes the file and returns the feeds, what torch gives, and how it was exported."""
    failures = []
    for spelled_out, named in attempts(row, exporter):
        module = seeded(row.make)
        if spelled_out and not eager(module):
            break
        wrapped, feeds, inputs, expected = torch_results(row, module)
        names, outputs = list(row.inputs), list(expected[0])
        try:
            with torch.no_grad():
                if exporter == "dynamo":
                    program = torch.onnx.export(wrapped, tuple(feeds[0].values()), dynamo=True, verbose=False,
                                                input_names=names, output_names=outputs,
                                                dynamic_shapes=dynamo_shapes(row, named))
                    program.save(str(path), external_data=False)
                else:
                    torch.onnx.export(wrapped, tuple(feeds[0].values()), str(path), dynamo=False, opset_version=17,
                                      input_names=names, output_names=outputs,
                                      dynamic_axes={k: t.dynamic() for k, t in row.inputs.items() if t.dynamic()})
            strip(path)
            known = {i.name for i in onnx.load(path, load_external_data=False).graph.input}
            inputs = [{k: v for k, v in feed.items() if k in known} for feed in inputs]
            check(path, inputs, expected, max(row.tolerance, 1e-3))
            return inputs, expected, dict(attention="eager" if spelled_out else "default", symbols="named" if named
                                          else "automatic")
        except Exception as e:  # what exporters raise is theirs
            failures.append(f"{type(e).__name__}: {str(e).strip()[-300:] or e!r}")
            path.unlink(missing_ok=True)
    raise Unusable(" | ".join(failures))


# What Optimum calls dimensions, and our symbols for them.
OPTIMUM_SIZES = {
    "batch_size": (2, 1, 3, 2), "sequence_length": (12, 7, 20, 60), "encoder_sequence_length": (9, 14, 5, 60),
    "encoder_sequence_length_out": (9, 14, 5, 60), "decoder_sequence_length": (6, 4, 9, 24),
    "past_sequence_length": (5, 9, 16, 4), "past_decoder_sequence_length": (5, 9, 16, 4),
    "num_channels": (3, 3, 3, 3), "height": (64, 64, 64, 64), "width": (64, 64, 64, 64),
    "text_batch_size": (4, 2, 5, 3), "image_batch_size": (2, 1, 3, 2),
}


def optimum_feeds(path, row, index):
    """Inputs of a file that Optimum wrote, by the names that it gives to inputs and dimensions."""
    generator = torch.Generator().manual_seed(100 + index)
    sizes = {k: v[index] for k, v in OPTIMUM_SIZES.items()} | {"sequence_length": row.at(index)["seq"]}
    named = {s: t.shape(row.at(index))[i] for t in row.inputs.values() for i, s in enumerate(t.dims)}
    feeds = {}
    graph = onnx.load(path, load_external_data=False).graph
    for value in graph.input:
        shape = []
        tensor = row.inputs.get(value.name)
        for i, d in enumerate(value.type.tensor_type.shape.dim):
            if tensor is not None and "+" not in d.dim_param:
                shape.append(tensor.shape(row.at(index))[i])
            elif not d.dim_param:
                shape.append(d.dim_value)
            elif "+" in d.dim_param:
                shape.append(sum(sizes[part.strip()] for part in d.dim_param.split("+")))
            elif d.dim_param in sizes:
                shape.append(sizes[d.dim_param])
            else:
                shape.append(named[d.dim_param])
        kind = value.type.tensor_type.elem_type
        if "mask" in value.name:
            x = torch.ones(shape, dtype=torch.int64)
        elif "position_ids" in value.name:
            past = sizes["past_sequence_length"] if any("past" in v.name for v in graph.input) else 0
            x = torch.arange(past, past + shape[-1]).expand(shape).contiguous()
        elif "token_type" in value.name:
            x = torch.randint(0, 2, shape, generator=generator)
        elif kind == onnx.TensorProto.INT64:
            x = torch.randint(2, 60, shape, generator=generator)
        elif kind == onnx.TensorProto.BOOL:
            x = torch.ones(shape, dtype=torch.bool)
        else:
            x = torch.randn(shape, generator=generator)
        feeds[value.name] = x.numpy()
    return feeds


def export_optimum(row, folder):
    """Every file that Optimum writes for the row's task: [(suffix, path)]."""
    from optimum.exporters.onnx import onnx_export_from_model
    module = seeded(row.make)
    onnx_export_from_model(module, folder, task=row.task, do_validation=False)
    return sorted((p.stem.replace("_model", "").replace("model", ""), p) for p in Path(folder).rglob("*.onnx"))


def inline_weights(source, path):
    onnx.save(onnx.load(source), path)
    strip(path)


def branches_agree(path):
    """Whether the file has a branch on an input, which one plan takes one way only."""
    return {"use_cache_branch"} & {i.name for i in onnx.load(path, load_external_data=False).graph.input}


class Calibration:
    def __init__(self, feeds):
        self.rest = iter(feeds)

    def get_next(self):
        return next(self.rest, None)


def quantized(source, feeds, folder):
    """[(suffix, path)] of one model in ONNX Runtime's three forms of quantization."""
    from onnxruntime import quantization as q
    ready = folder / "ready.onnx"
    try:
        q.quant_pre_process(str(source), str(ready), skip_symbolic_shape=True)
    except Exception:
        shutil.copy(source, ready)
    made = [("dynamic", folder / "dynamic.onnx"), ("qdq", folder / "qdq.onnx"), ("qoperator", folder / "qop.onnx"),
            ("qdq_channels", folder / "qdqc.onnx")]
    q.quantize_dynamic(str(ready), str(made[0][1]))
    for (name, path), form, channels in zip(made[1:], (q.QuantFormat.QDQ, q.QuantFormat.QOperator, q.QuantFormat.QDQ),
                                            (False, False, True)):
        q.quantize_static(str(ready), str(path), Calibration(feeds), quant_format=form, per_channel=channels,
                          activation_type=q.QuantType.QUInt8,
                          weight_type=q.QuantType.QInt8 if channels else q.QuantType.QUInt8)
    return made


def optimised(source, kind, folder):
    """[(suffix, path)] of one model behind ONNX Runtime's optimisers."""
    from onnxruntime.transformers import optimizer
    fused, extended = folder / "fused.onnx", folder / "extended.onnx"
    optimizer.optimize_model(str(source), model_type=kind, num_heads=2, hidden_size=32,
                             opt_level=0).save_model_to_file(str(fused))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(extended)
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    return [("ortfused", fused), ("ortextended", extended)]


def scratch():
    return tempfile.TemporaryDirectory(prefix="zoo-")
