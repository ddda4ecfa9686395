#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes models/RESULTS.md from the committed results of check_zoo.py, check_exports.py, check_decoders.py and
check_genai.py.

  tests/models/results_table.py          after new results in tests/models/results or tests/gpu/results
"""
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {
    "CPU": ROOT / "tests" / "models" / "results" / "zoo_cpu.json",
    "GPU": ROOT / "tests" / "gpu" / "results" / "zoo_model.json",
    "GPU, float16": ROOT / "tests" / "gpu" / "results" / "zoo_fp16.json",
}
EXPORTS = {
    "CPU": ROOT / "tests" / "models" / "results" / "exports_cpu.json",
    "GPU": ROOT / "tests" / "gpu" / "results" / "exports_model.json",
}


HALF = {
    "CPU, float16": ROOT / "tests" / "models" / "results" / "exports_fp16_cpu.json",
    "CPU, bfloat16": ROOT / "tests" / "models" / "results" / "exports_bf16_cpu.json",
    "GPU, float16": ROOT / "tests" / "gpu" / "results" / "exports_fp16.json",
    "GPU, bfloat16": ROOT / "tests" / "gpu" / "results" / "exports_bf16.json",
    "GPU, float16, long texts": ROOT / "tests" / "gpu" / "results" / "exports_long_fp16.json",
    "GPU, bfloat16, long texts": ROOT / "tests" / "gpu" / "results" / "exports_long_bf16.json",
}
BUILDERS = {
    "GenAI's builder 0.18": ROOT / "tests" / "models" / "results" / "genai_cpu.json",
    "mobius-onnx 0.1": ROOT / "tests" / "models" / "results" / "mobius_cpu.json",
}
SHOWN = 2.0  # times PyTorch's error: rows from here on are listed
TINY = ", a tiny configuration with seeded random weights, exported through "
MADE_UP = "'s topology with made-up weights"


def reason(text, most=90):
    """The first node's message, or the error's, without the model's path and the types of its inputs."""
    lines = text.splitlines()
    said = lines[1].strip() if len(lines) > 1 and "not supported" in lines[0] else lines[0].split(".onnx': ")[-1]
    said = re.sub(r"^'[^']*' \((\S+)\) on \(.*?\): (?=its|the)", r"\1: ", said)
    return (said if len(said) <= most else said[:most].rsplit(" ", 1)[0] + " ..").replace("|", "\\|")


def export_lines(name, result):
    """The table of one target: files that run of all, by group and exporter, and what does not run."""
    rows, total = result["files"], result["summary"]
    ways = list(dict.fromkeys(r["way"] for r in sorted(rows, key=lambda r: r["way"])))
    slowest = max(r.get("compile_user_seconds", 0) for r in rows)
    later = sorted({r["commit"][:10] for r in rows if "commit" in r})
    lines = ["", f"{name}: {result['gpu'] or result['cpu']}, commit {result['commit'][:10]}, {result['date']}"
             f"{', some files ' + ', '.join(later) if later else ''}. "
             f"{total['files']} files of {total['architectures']} architectures: {total['ok_without_options']} are right at three sizes in "
             f"one plan, without options, {total['ok_with_option']} with one; {total['refused']} refused, {total['wrong']} wrong, "
             f"{total['crash']} crash. Compiled in {slowest:.1f} s at most.", "",
             "| group | " + " | ".join(ways) + " |", "|" + "---|" * (len(ways) + 1)]
    for group in sorted({r["group"] for r in rows}):
        cells = []
        for way in ways:
            those = [r["verdict"] for r in rows if (r["group"], r["way"]) == (group, way)]
            cells.append(f"{those.count('ok')}/{len(those)}" if those else "")
        lines.append(f"| {group} | " + " | ".join(cells) + " |")
    return lines


def bad_lines(results):
    """What does not run, once for all targets: a row for each reason, whichever node it names."""
    places, why = {}, {}
    for target, result in results.items():
        for row in result["files"]:
            if row["verdict"] != "ok":
                places.setdefault(row["name"], []).append(target)
                text = re.sub(r"^([A-Za-z]+)-\d+: ", r"\1: ", reason(row["why"]))
                why.setdefault(row["name"], f"{row['verdict']}: {text}")
    if not places:
        return []
    lines = ["", "| why | files |", "|---|---|"]
    for text in dict.fromkeys(why[name] for name in sorted(places)):
        files = (name + f" ({', '.join(places[name])})" * (len(places[name]) < len(results)) for name in sorted(places) if why[name] == text)
        lines.append(f"| {text} | {', '.join(files)} |")
    return lines


def worst_ratio(row):
    """(our error in parts of PyTorch's, ours, PyTorch's) at the worst size, or nothing."""
    theirs = row.get("torch_errors")
    if row["verdict"] != "ok" or not isinstance(theirs, list):
        return None
    found = [(a / b, a, b) for a, b in zip(row["errors"], theirs) if 0 < b < float("inf")]
    return max(found, default=None)


def half_lines(results):
    """Errors of --precision fp16 and bf16 beside PyTorch's in the same type."""
    lines = ["", "### In 16 bits", "",
             "Errors of `--precision fp16` and `bf16` against PyTorch's float32, beside those of PyTorch's own run in that type on a",
             f"CPU, at four sizes of each file. A file may be off by 3 times as much; files of {SHOWN} times or more are listed. Long texts",
             "have 512 and 4,096 tokens and real head sizes; with them are late time steps.", "",
             "| where, commit | files | within 3 × | sizes compared | at most PyTorch's | median of PyTorch's | worst long text |",
             "|" + "---|" * 7]
    for name, result in results.items():
        total = result["summary"]
        long = [found[0] for row in result["files"] if "_long_" in row["name"] or "_late" in row["name"]
                if (found := worst_ratio(row))]
        left = f", {total['left']} not run" * bool(total["left"])
        lines.append(f"| {name}, {result['commit'][:10]} | {total['files']} | {total['ok_without_options'] + total['ok_with_option']}, "
                     f"{total['refused']} refused, {total['wrong']} wrong{left} | {total['sizes_compared']} | "
                     f"{total['sizes_below_torch']} | {total['median_of_torch']} | {max(long, default=0):.2f} |")
    lines += ["", "| where | files, times PyTorch's error |", "|---|---|"]
    for name, result in results.items():
        found = [(row["name"], worst_ratio(row)) for row in sorted(result["files"], key=lambda r: r["name"])]
        if shown := [f"{file} {worst[0]:.2f}" for file, worst in found if worst is not None and worst[0] >= SHOWN]:
            lines.append(f"| {name} | {', '.join(shown)} |")
    return lines


def block_lines(result):
    """GGUF's types of blocks: how many architectures' logits are those of the numbers that blocks stand for."""
    lines = ["", "## Blocks of GGUF", "",
             f"`tests/models/check_decoders.py --blocks all`, {result['target']}: {result['cpu']}, commit {result['commit'][:10]}, {result['date']}. Tiny",
             "decoders in each type of blocks, against the same model of the numbers that the blocks stand for.", "",
             "| types | right, each | largest relative error |", "|---|---|---|"]
    kinds = {}
    for label, error in result["errors"].items():
        kinds.setdefault(label.rpartition(".")[2], []).append(error)
    shares = {}  # types of one share are one row
    for kind, errors in kinds.items():
        right = [error for error in errors if not isinstance(error, str)]
        shares.setdefault((len(right), len(errors)), []).append((kind, max(right, default=0)))
    for (right, total), found in shares.items():
        lines.append(f"| {', '.join(kind for kind, _ in found)} | {right}/{total} | {max(error for _, error in found):.1e} |")
    return lines


def builder_lines(results):
    """Decoders of builders: by precision and provider, how many give ONNX Runtime's tokens."""
    lines = ["", "## Builders of decoders", "",
             "`models/export_genai.py` and `export_mobius.py` write them, `tests/models/check_genai.py` compares tokens from an empty cache. Alone:",
             "ONNX Runtime's CPU does not run it."]
    for name, result in results.items():
        kinds = {}
        for row in result["models"]:
            kinds.setdefault(row["model"].rsplit("_", 2)[1], []).append(row)
        lines += ["", f"{name}, commit {result['commit'][:10]}:", "", "| precision | equal | alone | differ, refused | error |", "|" + "---|" * 5]
        for kind, rows in sorted(kinds.items()):
            bad = [row["model"] for row in rows if row["failed"] or "nor do we" in row.get("without_peer", "")]
            alone = sum("without_peer" in row and row["model"] not in bad for row in rows)
            shown = ", ".join(model.replace(f"_{kind}_", " ") for model in bad)
            lines.append(f"| {kind} | {len(rows) - len(bad) - alone}/{len(rows)} | {alone} | {shown} | {max(row['largest_error'] for row in rows):.1e} |")
    return lines


def cell(row):
    if row is None:
        return ""
    if not row["ok"]:
        return row["why"].replace("|", "\\|")[:80]
    on, off = row["fuse_on"], row["fuse_off"]
    return f"{off['launches']} → {on['launches']}, {on['relative_error']:.1e}"


def alike(a, b):
    """Whether two results of a model need no row each."""
    if a is None or b is None or not (a["ok"] and b["ok"]):
        return False
    return abs(a["fuse_on"]["launches"] - b["fuse_on"]["launches"]) <= 2


def main():
    manifest = json.loads((ROOT / "models" / "manifest.json").read_text())
    results = {name: json.loads(path.read_text()) for name, path in SOURCES.items() if path.exists()}
    rows = {name: {r["model"]: r for r in result["models"]} for name, result in results.items()}
    lines = ["# Models", "",
             "Written by `tests/models/results_table.py` from the results of `tests/models/check_zoo.py`. A cell has launches,",
             "unfused → fused, and the error. Errors are relative, against ONNX Runtime or PyTorch in float32. Tiny models",
             "are small configurations with random weights, light ones known topologies. `_ts` (TorchScript) has a row where launches differ by more",
             "than 2 or one fails. Models without error: [FUSION.md](FUSION.md).", ""]
    for name, result in results.items():
        machine = result["gpu"] or result["cpu"]
        lines.append(f"- {name}: {machine}, commit {result['commit'][:10]}, {result['date']}")
    lines += ["", "| model | what | " + " | ".join(results) + " |", "|" + "---|" * (len(results) + 2)]
    for key, entry in manifest.items():
        cells = [cell(rows[name].get(key)) for name in rows]
        measured = [rows[name][key] for name in rows if key in rows[name]]
        if any(cells) and not all(row["ok"] and row["fuse_on"]["relative_error"] == 0 for row in measured):
            other = key.removesuffix("_ts")
            if other != key and all(alike(rows[name].get(key), rows[name].get(other)) for name in rows):
                continue
            what = "" if other != key and other in manifest else entry["what"].partition(TINY)[0].removesuffix(MADE_UP)
            lines.append(f"| {key} | {what} | " + " | ".join(cells) + " |")
    found = {name: json.loads(path.read_text()) for name, path in EXPORTS.items() if path.exists()}
    if found:
        lines += ["", "## The export zoo", "",
                  "`models/export_zoo.py` writes them, `tests/models/check_exports.py` compares."]
        for name, result in found.items():
            lines += export_lines(name, result)
        lines += bad_lines(found)
    half = {name: json.loads(path.read_text()) for name, path in HALF.items() if path.exists()}
    if half:
        lines += half_lines(half)
    blocks = ROOT / "tests" / "models" / "results" / "decoder_blocks_cpu.json"
    if blocks.exists():
        lines += block_lines(json.loads(blocks.read_text()))
    builders = {name: json.loads(path.read_text()) for name, path in BUILDERS.items() if path.exists()}
    if builders:
        lines += builder_lines(builders)
    (ROOT / "models" / "RESULTS.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
