#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decoders as ONNX Runtime GenAI's model builder exports them: compiled without options, run from an empty cache, and
compared with ONNX Runtime step by step.

  check_genai.py --models FOLDER                   all that models/export_genai.py wrote there
  check_genai.py --models FOLDER --only llama_fp32_cpu --target cuda
  check_genai.py --models FOLDER --only qwen3_int4_cuda --write tests/conformance/genai
                                                   writes them with ONNX Runtime's answers as conformance cases

A text is run in several steps, each after the caches of its own step before: prompts of several lengths, a second
part of a prompt, single tokens, and tokens behind samples of different lengths. Rows of caches behind a sample's tokens
mean nothing and are not compared. In float32 `sinter generate` gives the same greedy tokens, too.
"""
import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "tests" / "perf")]
from common import provenance, write as write_results  # noqa: E402
from runs import Failed, Sinter, onnx_runtime, relative_error  # noqa: E402

# Texts: in each step, how many tokens each sample of the batch has before it, and how many more it gets.
TEXTS = {"one by one": [([0], 1), ([1], 1), ([2], 1)],
         "prompt": [([0], 5), ([5], 1), ([6], 1)],
         "long prompt": [([0], 20), ([20], 1), ([21], 1)],
         "prompt in two parts": [([0], 3), ([3], 4), ([7], 1)],
         "batch, crossing the window": [([0] * 3, 6)] + [([6 + i] * 3, 1) for i in range(4)],
         "batch, one taken back": [([0, 0], 7), ([7, 4], 1), ([8, 5], 1)]}
LENGTHS = (1, 2, 5, 9, 17, 31, 47, 63, 65, 77)  # that chunks of 16 to 64 do not divide
SLACK = 3  # rows of windowed caches beyond the window
MOST_ERROR = {np.dtype(np.float32): 2e-5, np.dtype(np.float16): 1e-2}


class Model:
    """An exported graph, and what ONNX Runtime's CPU can run of it."""

    def __init__(self, path, slack=SLACK):
        self.path, self.slack = path, slack
        self.proto = onnx.load(path)
        self.inputs = {i.name: i.type.tensor_type for i in self.proto.graph.input}
        self.attention = [n for n in self.proto.graph.node if n.op_type == "GroupQueryAttention"]
        config = json.loads(path.with_name("genai_config.json").read_text())
        self.head_size = config["model"]["decoder"]["head_size"]
        self.vocabulary = self.proto.graph.output[0].type.tensor_type.shape.dim[-1].dim_value

    def attributes(self, node):
        return {a.name: helper.get_attribute_value(a) for a in node.attribute}

    def windows(self):
        """Rows of each windowed cache, by the name of its input."""
        return {name: self.attributes(node)["local_window_size"] + self.slack for node in self.attention
                if self.attributes(node).get("sliding_window_cache") for name in node.input[3:5]}

    def states(self):
        """Of a fixed size: of convolutions and linear attention."""
        return [name for name in self.inputs if name.startswith("past.")]

    def dtype_of(self, name):
        return helper.tensor_dtype_to_np_dtype(self.inputs[name].elem_type)

    def caches(self, batch):
        """Empty ones."""
        windows, result = self.windows(), {}
        for name, tensor in self.inputs.items():
            if name in self.states():
                result[name] = np.zeros([batch, *(d.dim_value for d in tensor.shape.dim[1:])], self.dtype_of(name))
            elif name.startswith("past_key_values"):
                shape = [batch, tensor.shape.dim[1].dim_value, windows.get(name, 0), self.head_size]
                result[name] = np.zeros(shape, self.dtype_of(name))
        return result

    def for_peer(self):
        """Without what asks ONNX Runtime to round products' inputs, and with norms of heads that its CPU lacks as
        nodes of their own."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        del proto.graph.value_info[:]  # some of these shapes are wrong, and it reuses memory by them
        nodes = []
        for node in proto.graph.node:
            kept = [a for a in node.attribute if a.name not in ("accuracy_level", "qk_norm_epsilon")]
            epsilon = self.attributes(node).get("qk_norm_epsilon", 1e-6)
            del node.attribute[:]
            node.attribute.extend(kept)
            if node.op_type == "GroupQueryAttention" and len(node.input) > 14:
                nodes += self.norms(proto, node, epsilon)
            nodes.append(node)
        copies = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
        del proto.graph.node[:]
        proto.graph.node.extend(copies)
        return proto

    def norms(self, proto, node, epsilon):
        made, attributes = [], self.attributes(node)
        for at, weight, heads in ((0, 14, "num_heads"), (1, 15, "kv_num_heads")):
            name = f"{node.name}/norm{at}"
            shapes = {"split": [0, 0, attributes[heads], -1], "merge": [0, 0, -1]}
            for key, shape in shapes.items():
                proto.graph.initializer.append(numpy_helper.from_array(np.array(shape), f"{name}/{key}"))
            made += [helper.make_node("Reshape", [node.input[at], f"{name}/split"], [f"{name}/x"]),
                     helper.make_node("SimplifiedLayerNormalization", [f"{name}/x", node.input[weight]], [f"{name}/y"],
                                      axis=-1, epsilon=epsilon, stash_type=1),
                     helper.make_node("Reshape", [f"{name}/y", f"{name}/merge"], [f"{name}/z"])]
            node.input[at] = f"{name}/z"
        del node.input[12:]
        return made


def resident(tokens, capacity, window):
    """Tokens that a windowed cache holds (GroupQueryAttention, sliding_window_cache)."""
    step = capacity - window + 1
    return tokens if tokens <= capacity else tokens - step * -(-(tokens - capacity) // step)


class Text:
    """One batch of tokens, step by step."""

    def __init__(self, model, steps, seed=3):
        self.model, self.steps, self.rng = model, steps, np.random.default_rng(seed)

    def feeds(self, before, count):
        ids = self.rng.integers(2, self.model.vocabulary, (len(before), count))
        values = {"input_ids": ids, "attention_mask": np.array(
            [[int(i < b + count) for i in range(max(before) + count)] for b in before])}
        if "position_ids" in self.model.inputs:
            positions = np.array([[b + i for i in range(count)] for b in before])
            axes = len(self.model.inputs["position_ids"].shape.dim) - 2  # of time, height and width
            values["position_ids"] = np.stack([positions] * 3) if axes else positions
        return {k: v.astype(self.model.dtype_of(k)) for k, v in values.items()}

    def compare(self, sinter_run, peer_run):
        """The largest relative error, with where it is."""
        worst = (0.0, "")
        ours = theirs = self.model.caches(len(self.steps[0][0]))
        for at, (before, count) in enumerate(self.steps):
            values = self.feeds(before, count)
            found, expected = sinter_run({**values, **ours}), peer_run({**values, **theirs})
            for name, value in expected.items():
                pairs = self.pairs(name, found[name], value, [b + count for b in before])
                worst = max(worst, (max(relative_error(*pair) for pair in pairs), f"{name} of step {at}"))
            ours, theirs = self.next(found), self.next(expected)
        return worst

    def next(self, outputs):
        pasts = {name.replace("present", "past" if name.replace("present", "past") in self.model.inputs else "past_key_values"): v
                 for name, v in outputs.items() if name.startswith("present")}
        return pasts

    def one_by_one(self, sinter_run, length):
        """How far a prompt's last logits and states are from those of its tokens one by one."""
        ids = self.rng.integers(2, self.model.vocabulary, (1, length))
        runs = []
        for parts in ([length], [1] * length):
            caches, at = self.model.caches(1), 0
            for count in parts:
                values = self.feeds([at], count) | {"input_ids": ids[:, at:at + count].astype(self.model.dtype_of("input_ids"))}
                found = sinter_run({**values, **caches})
                caches, at = self.next(found), at + count
            runs.append([found["logits"][:, -1], *(caches[name] for name in self.model.states())])
        return max(relative_error(a, b) for a, b in zip(*runs))

    def pairs(self, name, found, expected, after):
        """What means something, of each sample."""
        if found.shape != expected.shape or found.dtype != expected.dtype:
            raise Failed(f"{name} is {found.dtype}{list(found.shape)}, should be "
                         f"{expected.dtype}{list(expected.shape)}")
        windows = {k.replace("past_key_values", "present"): v for k, v in self.model.windows().items()}
        for b, tokens in enumerate(after):
            if name.startswith("present") and name.replace("present", "past") not in self.model.states():
                rows = slice(tokens if name not in windows else resident(tokens, windows[name], windows[name] - self.model.slack))
                yield found[b, :, rows], expected[b, :, rows]
            else:
                yield found[b], expected[b]


def check(sinter, path, folder):
    """What is wrong, or nothing, and the largest error."""
    model = Model(path)
    plan = sinter.compile(path, name=path.parent.name)
    peer = onnxruntime_of(model, Path(folder) / "peer.onnx")
    names = [o.name for o in peer.get_outputs()]
    largest, most = (0.0, ""), MOST_ERROR[model.dtype_of(next(k for k in model.inputs if k.startswith("past_key_values")))]
    if model.states():
        most *= 5  # a state keeps the rounding of all tokens; one step from the same states is within 3e-6
    for title, steps in TEXTS.items():
        if not model.attention and (any(len(set(before)) > 1 for before, _ in steps) or "parts" in title):
            continue  # masks of other graphs are for samples of one length, and for prompts that are whole
        if model.states() and "taken back" in title:
            continue  # a state does not go back
        worst = Text(model, steps).compare(lambda feeds: sinter.run(plan, feeds),
                                           lambda feeds: dict(zip(names, peer.run(names, feeds))))
        largest = max(largest, (worst[0], f"{worst[1]}, {title}"))
        if not worst[0] <= most:
            return f"error {worst[0]:.1e} in {worst[1]} of '{title}'", largest
    for length in LENGTHS if model.states() else ():
        error = Text(model, []).one_by_one(lambda feeds: sinter.run(plan, feeds), length)
        largest = max(largest, (error, f"{length} tokens one by one"))
        if not error <= most:
            return f"{length} tokens one by one are {error:.1e} away from a prompt of them", largest
    # `generate` has caches of pages, and no states yet
    if most == MOST_ERROR[np.dtype(np.float32)] and sinter.target == "cpu":  # pages of a GPU need 16 bits
        plan.unlink()
        plan = sinter.compile(path, "--serve", name=path.parent.name)
        expected, found = generated(sinter, model, plan, peer)
        if found != expected:
            return f"`sinter generate` gives {found}, should be {expected}", largest
    plan.unlink()
    return None, largest


def generated(sinter, model, plan, peer, prompt="the quick brown", count=12):
    """Greedy tokens by ONNX Runtime, and those of `sinter generate` with the export's tokenizer."""
    from tokenizers import Tokenizer
    tokenizer = model.path.with_name("tokenizer.json")
    found = sinter.json("generate", plan, "--tokenizer", tokenizer, "--prompt", prompt, "--max-tokens", count,
                        "--no-stop", "--no-rates")["tokens"]
    return greedy(model, peer, Tokenizer.from_file(str(tokenizer)).encode(prompt).ids, count), found


# Texts of which every row of every cache means something: windowed caches are full.
WRITTEN = [([0], 9), ([9], 1), ([10], 3), ([0, 0], 12), ([12, 12], 1)]


def write(path, folder):
    """A model and ONNX Runtime's answers as a conformance case: each step of WRITTEN is a data set."""
    model = Model(path, slack=0)
    case = folder / "node" / f"test_{path.parent.name}"
    shutil.rmtree(case, ignore_errors=True)
    case.mkdir(parents=True)
    onnx.save(model.proto, case / "model.onnx")
    tolerances = {np.dtype(np.float32): (1e-3, 1e-5), np.dtype(np.float16): (2e-2, 1e-2)}
    rtol, atol = tolerances[model.dtype_of("past_key_values.0.key")]
    (case / "data.json").write_text(json.dumps({"rtol": rtol, "atol": atol}) + "\n")
    peer = onnxruntime_of(model, case / "peer.onnx")
    (case / "peer.onnx").unlink()
    names, caches = [o.name for o in peer.get_outputs()], {}
    text = Text(model, WRITTEN)
    for at, (before, count) in enumerate(WRITTEN):
        if not any(before):
            caches = model.caches(len(before))
        feeds = {**text.feeds(before, count), **caches}
        outputs = dict(zip(names, peer.run(names, feeds)))
        caches = text.next(outputs)
        data = case / f"test_data_set_{at}"
        data.mkdir()
        for kind, values in (("input", [feeds[name] for name in model.inputs]), ("output", outputs.values())):
            for i, value in enumerate(values):
                (data / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(value).SerializeToString())
    prompts = [[3], list(range(5, 14))]
    (case / "greedy.json").write_text(json.dumps(
        [{"ids": ids, "tokens": greedy(model, peer, ids, 12)} for ids in prompts]) + "\n")
    print(case)


def greedy(model, peer, ids, count):
    """The most likely tokens behind `ids`, one after the other."""
    names, caches, tokens, before = [o.name for o in peer.get_outputs()], model.caches(1), [], 0
    new = ids
    while len(tokens) < count:
        values = {"input_ids": [new], "attention_mask": [[1] * (before + len(new))],
                  "position_ids": [list(range(before, before + len(new)))]}
        feeds = {k: np.array(v, model.dtype_of(k)) for k, v in values.items() if k in model.inputs}
        outputs = dict(zip(names, peer.run(names, {**feeds, **caches})))
        caches = {name.replace("present", "past_key_values"): v for name, v in outputs.items() if name != "logits"}
        before += len(new)
        new = [int(outputs["logits"][0, -1].argmax())]
        tokens += new
    return tokens


def onnxruntime_of(model, path):
    onnx.save(model.for_peer(), path)
    # It would round the inputs of products with DequantizeLinear to 8 bits.
    return onnx_runtime(path, config={"session.qdq_matmulnbits_accuracy_level": "1"})


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--models", type=Path, required=True)
    p.add_argument("--only", nargs="+", default=[""], help="names that begin so")
    p.add_argument("--commit", help="the commit checked, where there is no git checkout")
    p.add_argument("--out", help="write the results as JSON")
    p.add_argument("--write", type=Path, help="folder of conformance cases")
    a = p.parse_args()
    rows, failed = [], 0
    paths = [m for m in sorted(a.models.glob("*/model.onnx")) if m.parent.name.startswith(tuple(a.only))]
    if a.write:
        for path in paths:
            write(path, a.write)
        return
    with tempfile.TemporaryDirectory() as folder:
        sinter = Sinter(a.sinter, folder, a.target)
        for path in paths:
            try:
                why, (error, where) = check(sinter, path, folder)
            except Failed as e:
                why, error, where = str(e), 0.0, ""
            failed += why is not None
            rows.append({"model": path.parent.name, "largest_error": error, "where": where, "failed": why})
            print(f"{'FAILED' if why else 'ok    '} {path.parent.name}: " +
                  (why or f"largest error {error:.1e} ({where})"), flush=True)
    print(f"{len(paths) - failed} of {len(paths)} models as ONNX Runtime")
    if a.out:
        write_results(a.out, {**provenance(a.commit), "target": a.target, "models": rows})
    sys.exit(1 if failed or not paths else 0)


if __name__ == "__main__":
    main()
