#!/usr/bin/env python3
"""Writes models/RESULTS.md from the committed results of check_zoo.py.

  tests/models/results_table.py          after new results in tests/models/results or tests/gpu/results
"""
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {
    "CPU": ROOT / "tests" / "models" / "results" / "zoo_cpu.json",
    "GPU": ROOT / "tests" / "gpu" / "results" / "zoo_model.json",
    "GPU, float16": ROOT / "tests" / "gpu" / "results" / "zoo_fp16.json",
}


def cell(row):
    if row is None:
        return "", ""
    if not row["ok"]:
        return "", row["why"].replace("|", "\\|")[:80]
    on, off = row["fuse_on"], row["fuse_off"]
    return f"{off['launches']} → {on['launches']}", f"{on['relative_error']:.1e}"


def main():
    manifest = json.loads((ROOT / "models" / "manifest.json").read_text())
    results = {name: json.loads(path.read_text()) for name, path in SOURCES.items() if path.exists()}
    rows = {name: {r["model"]: r for r in result["models"]} for name, result in results.items()}
    lines = ["# Models", "",
             "Written by `tests/models/results_table.py` from the results of `tests/models/check_zoo.py`. Launches are",
             "unfused → fused; errors are relative, against ONNX Runtime or PyTorch in float32.", ""]
    for name, result in results.items():
        machine = result["gpu"] or result["cpu"]
        lines.append(f"- {name}: {machine}, commit {result['commit'][:10]}, {result['date']}")
    heads = [h for name in results for h in (f"{name}: launches", "error")]
    lines += ["", "| model | what | " + " | ".join(heads) + " |", "|" + "---|" * (len(heads) + 2)]
    for key, entry in manifest.items():
        cells = [cell(rows[name].get(key)) for name in rows]
        if any(c != ("", "") for c in cells):
            lines.append(f"| {key} | {entry['what']} | " + " | ".join(x for c in cells for x in c) + " |")
    (ROOT / "models" / "RESULTS.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
