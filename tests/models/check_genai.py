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
from genai_model import BFLOAT16, CAPACITY, Model, NoPeer, resident  # noqa: E402
from runs import Failed, Sinter, relative_error  # noqa: E402

# Texts: in each step, how many tokens each sample of the batch has before it, and how many more it gets.
TEXTS = {"one by one": [([0], 1), ([1], 1), ([2], 1)],
         "prompt": [([0], 5), ([5], 1), ([6], 1)],
         "long prompt": [([0], 20), ([20], 1), ([21], 1)],
         "prompt in two parts": [([0], 3), ([3], 4), ([7], 1)],
         "batch, crossing the window": [([0] * 3, 6)] + [([6 + i] * 3, 1) for i in range(4)],
         "batch, one taken back": [([0, 0], 7), ([7, 4], 1), ([8, 5], 1)]}
LENGTHS = (1, 2, 5, 9, 17, 31, 47, 63, 65, 77)  # that chunks of 16 to 64 do not divide
MOST_ERROR = {np.dtype(np.float32): 2e-5, np.dtype(np.float16): 1e-2, BFLOAT16: 8e-2}
PAGE = 16


def run_plan(sinter, model, plan, feeds):
    """What a plan answers. NumPy's files have bfloat16 as 16 bits."""
    outputs = {o.name: o.type.tensor_type.elem_type for o in model.proto.graph.output}
    found = sinter.run(plan, {k: v.view(np.uint16) if v.dtype == BFLOAT16 else v for k, v in feeds.items()})
    return {k: v.view(BFLOAT16) if outputs[k] == onnx.TensorProto.BFLOAT16 else v for k, v in found.items()}


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
            expected = peer_run({**values, **theirs})
            found = sinter_run({**values, **ours})
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
            runs.append([found["logits"][:, -1], *(last(self.model, name, caches[name]) for name in self.model.states())])
        return max(relative_error(a, b) for a, b in zip(*runs))

    def tokens(self, sinter_run, peer_run, most, count=8):
        """Greedy tokens, each chosen by the peer: what differs, or nothing. In 16 bits two logits may be as good as equal."""
        ours = theirs = self.model.caches(1)
        ids, before = self.rng.integers(2, self.model.vocabulary, (1, 5)), 0
        for at in range(count):
            values = self.feeds([before], ids.shape[1]) | {"input_ids": ids.astype(self.model.dtype_of("input_ids"))}
            found, expected = sinter_run({**values, **ours}), peer_run({**values, **theirs})
            ours, theirs, before = self.next(found), self.next(expected), before + ids.shape[1]
            logits, best = found["logits"][0, -1].astype(np.float64), int(expected["logits"][0, -1].argmax())
            if logits.max() - logits[best] > (0 if most < 1e-4 else 2 * most * np.abs(logits).max()):
                return f"token {at} is {int(logits.argmax())}, should be {best}"
            ids = np.array([[best]])
        return None

    def pairs(self, name, found, expected, after):
        """What means something, of each sample."""
        if found.shape != expected.shape or (found.dtype != expected.dtype and not self.model.wide):
            raise Failed(f"{name} is {found.dtype}{list(found.shape)}, should be "
                         f"{expected.dtype}{list(expected.shape)}")
        windows = {k.replace("past_key_values", "present"): v for k, v in self.model.windows().items()}
        if name.replace("present", "past") in self.model.states():
            found, expected = last(self.model, name, found), last(self.model, name, expected)
        for b, tokens in enumerate(after):
            if name.startswith("present") and name.replace("present", "past") not in self.model.states():
                rows = slice(tokens if name not in windows else resident(tokens, windows[name], windows[name] - self.model.slack))
                yield found[b, :, rows], expected[b, :, rows]
            else:
                yield found[b], expected[b]


def last(model, name, value):
    """Of a window of states the last: those before a text begins mean nothing."""
    return value[-1] if model.batch_axis(name) else value


class Pages:
    """Runs a model of packed tokens and caches in pages as if it had samples in rows and caches of their own."""

    def __init__(self, model, plan, sinter):
        self.model, self.plan, self.sinter = model, plan, sinter

    def dims(self, name):
        return [d.dim_value or d.dim_param for d in self.model.inputs[name].shape.dim]

    def run(self, feeds, before, caches):
        """Logits of each sample, and the caches."""
        ids, inputs = feeds["input_ids"], self.model.inputs
        batch, count = ids.shape
        of_each = CAPACITY // PAGE
        if caches is None:
            sizes = {"num_blocks": batch * of_each, "num_blocks_windowed": batch * of_each, "block_size": PAGE, "batch_size": batch}
            caches = {name: np.zeros([sizes.get(d, d) for d in self.dims(name)], self.model.dtype_of(name))
                      for name in inputs if name.startswith("past") and name != "past_sequence_lengths"}
        tables = np.random.default_rng(7).permutation(batch * of_each).reshape(batch, of_each)
        ends = [b + count for b in before]
        values = {"input_ids": ids.reshape(-1), "block_table": tables, "block_table_windowed": tables,
                  "cumulative_sequence_lengths": np.arange(batch + 1) * count, "past_sequence_lengths": np.array(before),
                  "attention_metadata": np.array([count, max(ends), 0]), "logits_indices": np.arange(batch * count),
                  "position_ids": np.stack([np.concatenate([b + np.arange(count) for b in before])] * 3)}
        packed = {k: v.astype(self.model.dtype_of(k)) for k, v in values.items() if k in inputs}
        found = run_plan(self.sinter, self.model, self.plan, {**packed, **caches})
        nexts = {name.replace("present", "past" if name.replace("present", "past") in inputs else "past_key_values"): v
                 for name, v in found.items() if name.startswith("present")}
        return found["logits"].reshape(batch, count, -1), nexts


def most_error(model):
    most = MOST_ERROR[model.dtype]
    if model.states():
        most *= 5  # a state keeps the rounding of all tokens; one step from the same states is within 3e-6
    if any(node.op_type in ("MoE", "QMoE") for node in model.proto.graph.node):
        most *= 2  # a token's experts are as near to each other as rounding
    if model.rounds and any(a.name == "accuracy_level" and a.i == 4 for node in model.proto.graph.node for a in node.attribute):
        most = max(most, 1e-2)  # a number between two codes goes to either
    return most


def check_pages(sinter, path, folder, texts):
    """A model of pages against the peer of the same export with rows."""
    model = Model(path)
    plan = sinter.compile(path, name=path.parent.name)
    plain = path.parent.parent / path.parent.name.replace("_paged", "") / "model.onnx"
    if not plain.exists():
        raise NoPeer("the builder does not write it without pages")
    rows = Model(plain)
    peer = rows.session(Path(folder) / "peer.onnx")
    pages, largest, most = Pages(model, plan, sinter), (0.0, ""), 2 * most_error(rows)
    for title, steps in ((title, TEXTS[title]) for title in texts):
        if rows.states() and "taken back" in title:
            continue
        text, theirs, ours = Text(rows, steps), rows.caches(len(steps[0][0])), None
        for at, (before, count) in enumerate(steps):
            values = text.feeds(before, count)
            expected = peer({**values, **theirs})
            theirs = text.next(expected)
            found, ours = pages.run(values, before, ours)
            error = relative_error(found, expected["logits"].astype(np.float32))
            largest = max(largest, (error, f"logits of step {at}, {title}"))
            if not error <= most:
                return f"error {error:.1e} in step {at} of '{title}'", largest
    plan.unlink()
    return None, largest


def check_speech(sinter, path, folder):
    """Whisper: an encoder that writes the caches of the decoder's second attention."""
    rng, largest = np.random.default_rng(5), (0.0, "")
    state = {}
    for name, steps in (("encoder", 1), ("decoder", 4)):
        model = Model.__new__(Model)
        model.path = path.with_name(f"{name}.onnx")
        model.proto = onnx.load(model.path)
        model.inputs = {i.name: i.type.tensor_type for i in model.proto.graph.input}
        model.dtype = helper.tensor_dtype_to_np_dtype(model.proto.graph.output[0].type.tensor_type.elem_type)
        model.wide, model.capacity, model.attention = False, 0, []
        plan = sinter.compile(model.path, name=name)
        peer = model.session(Path(folder) / "peer.onnx")
        ours = dict(state)
        for at in range(steps):
            feeds = {}
            for key, tensor in model.inputs.items():
                sizes = {"batch_size": 2, "sequence_length": 1 if at else 4, "past_sequence_length": 0, "past_self_sequence_length": 0}
                shape = [d.dim_value or sizes.get(d.dim_param, 0) for d in tensor.shape.dim]
                if key in ours:
                    feeds[key] = ours[key]
                elif key == "input_ids":
                    feeds[key] = rng.integers(2, 300, shape).astype(model.dtype_of(key))
                elif key == "audio_features":
                    feeds[key] = rng.normal(size=shape).astype(model.dtype_of(key))
                else:
                    feeds[key] = np.zeros(shape, model.dtype_of(key))
            found, expected = run_plan(sinter, model, plan, feeds), peer(feeds)
            for key, value in expected.items():
                error = relative_error(found[key].astype(np.float32), value.astype(np.float32))
                largest = max(largest, (error, f"{key} of step {at}, {name}"))
                if not error <= MOST_ERROR[model.dtype]:
                    return f"error {error:.1e} in {key} of step {at} of the {name}", largest
            ours.update({key.replace("present", "past"): v for key, v in found.items() if key.startswith("present")})
        state = ours
        plan.unlink()
    return None, largest


def check(sinter, path, folder, texts=tuple(TEXTS)):
    """What is wrong, or nothing, and the largest error."""
    if path.name == "encoder.onnx":
        return check_speech(sinter, path, folder)
    if "_paged_" in path.parent.name:
        return check_pages(sinter, path, folder, texts)
    model = Model(path)
    model.rounds = sinter.target == "cpu"
    peer_run = model.session(Path(folder) / "peer.onnx")
    plan = sinter.compile(path, name=path.parent.name)
    largest, most = (0.0, ""), most_error(model)

    def sinter_run(feeds):
        return run_plan(sinter, model, plan, feeds)
    for title, steps in ((title, TEXTS[title]) for title in texts):
        if not model.attention and (any(len(set(before)) > 1 for before, _ in steps) or "parts" in title):
            continue  # masks of other graphs are for samples of one length, and for prompts that are whole
        if (model.states() or model.capacity) and "taken back" in title:
            continue  # a state does not go back
        if model.capacity and "parts" in title:
            continue  # SparseAttention takes a prompt whole
        worst = Text(model, steps).compare(sinter_run, peer_run)
        largest = max(largest, (worst[0], f"{worst[1]}, {title}"))
        if not worst[0] <= most:
            return f"error {worst[0]:.1e} in {worst[1]} of '{title}'", largest
    if why := Text(model, []).tokens(sinter_run, peer_run, most):
        return why, largest
    for length in LENGTHS if model.states() and model.dtype == np.float32 and len(texts) == len(TEXTS) else ():
        error = Text(model, []).one_by_one(sinter_run, length)
        largest = max(largest, (error, f"{length} tokens one by one"))
        if not error <= most:
            return f"{length} tokens one by one are {error:.1e} away from a prompt of them", largest
    # `generate` has caches of pages; pages of a GPU need 16 bits.
    if sinter.target == "cpu" and model.dtype == np.float32 and path.parent.name.endswith("_fp32_cpu") and model.serves():
        plan.unlink()
        plan = sinter.compile(path, "--serve", name=path.parent.name)
        expected, found = generated(sinter, model, plan, peer_run)
        if found != expected:
            return f"`sinter generate` gives {found}, should be {expected}", largest
    plan.unlink()
    return None, largest


def generated(sinter, model, plan, peer_run, prompt="the quick brown", count=12):
    """Greedy tokens by ONNX Runtime, and those of `sinter generate` with the export's tokenizer."""
    from tokenizers import Tokenizer
    tokenizer = model.path.with_name("tokenizer.json")
    found = sinter.json("generate", plan, "--tokenizer", tokenizer, "--prompt", prompt, "--max-tokens", count,
                        "--no-stop", "--no-rates")["tokens"]
    return greedy(model, peer_run, Tokenizer.from_file(str(tokenizer)).encode(prompt).ids, count), found


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
    peer_run = model.session(case / "peer.onnx")
    (case / "peer.onnx").unlink()
    caches = {}
    text = Text(model, WRITTEN)
    for at, (before, count) in enumerate(WRITTEN):
        if not any(before):
            caches = model.caches(len(before))
        feeds = {**text.feeds(before, count), **caches}
        outputs = peer_run(feeds)
        caches = text.next(outputs)
        data = case / f"test_data_set_{at}"
        data.mkdir()
        for kind, values in (("input", [feeds[name] for name in model.inputs]), ("output", outputs.values())):
            for i, value in enumerate(values):
                (data / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(value).SerializeToString())
    prompts = [[3], list(range(5, 14))]
    (case / "greedy.json").write_text(json.dumps(
        [{"ids": ids, "tokens": greedy(model, peer_run, ids, 12)} for ids in prompts]) + "\n")
    print(case)


def greedy(model, peer_run, ids, count):
    """The most likely tokens behind `ids`, one after the other."""
    caches, tokens, before, new = model.caches(1), [], 0, ids
    while len(tokens) < count:
        values = {"input_ids": [new], "attention_mask": [[1] * (before + len(new))],
                  "position_ids": [list(range(before, before + len(new)))]}
        feeds = {k: np.array(v, model.dtype_of(k)) for k, v in values.items() if k in model.inputs}
        outputs = peer_run({**feeds, **caches})
        caches = Text(model, []).next(outputs)
        before += len(new)
        new = [int(outputs["logits"][0, -1].argmax())]
        tokens += new
    return tokens


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sinter", default=str(ROOT / "build" / "bin" / "sinter"))
    p.add_argument("--target", default="cpu")
    p.add_argument("--models", type=Path, required=True)
    p.add_argument("--only", nargs="+", default=[""], help="names that begin so")
    p.add_argument("--texts", nargs="+", choices=TEXTS, default=list(TEXTS), help="fewer of them, which takes less time")
    p.add_argument("--commit", help="the commit checked, where there is no git checkout")
    p.add_argument("--out", help="write the results as JSON")
    p.add_argument("--into", type=Path, help="put the rows of these models into such results")
    p.add_argument("--write", type=Path, help="folder of conformance cases")
    a = p.parse_args()
    rows, failed = [], 0
    paths = [m for m in sorted((*a.models.glob("*/model.onnx"), *a.models.glob("*/encoder.onnx"))) if m.parent.name.startswith(tuple(a.only))]
    if a.write:
        for path in paths:
            write(path, a.write)
        return
    with tempfile.TemporaryDirectory() as folder:
        sinter = Sinter(a.sinter, folder, a.target)
        for path in paths:
            without_peer = None
            try:
                why, (error, where) = check(sinter, path, folder, a.texts)
            except Failed as e:
                why, error, where = str(e), 0.0, ""
            except NoPeer as e:
                why, error, where, without_peer = None, 0.0, "", str(e)
                try:
                    sinter.compile(path, name=path.parent.name).unlink()
                except Failed as own:
                    without_peer += f"; nor do we: {own}"
            failed += why is not None
            rows.append({"model": path.parent.name, "largest_error": error, "where": where, "failed": why} |
                        ({"without_peer": without_peer} if without_peer else {}))
            print(f"{'FAILED' if why else 'alone ' if without_peer else 'ok    '} {path.parent.name}: " +
                  (why or without_peer or f"largest error {error:.1e} ({where})"), flush=True)
    print(f"{len(paths) - failed} of {len(paths)} models as ONNX Runtime")
    if a.out:
        write_results(a.out, {**provenance(a.commit), "target": a.target, "models": rows})
    if a.into:
        own = {row["model"] for row in rows}
        before = json.loads(a.into.read_text())["models"] if a.into.exists() else []
        merged = sorted([row for row in before if row["model"] not in own] + rows, key=lambda row: row["model"])
        write_results(a.into, {**provenance(a.commit), "target": a.target, "models": merged})
    sys.exit(1 if failed or not paths else 0)


if __name__ == "__main__":
    main()
