# SPDX-License-Identifier: Apache-2.0
"""`sinter embed`: MiniLM with its own tokenizer and pooling, against ONNX Runtime a sentence at a time."""
import json
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT

import pysinter

pytest.importorskip("tokenizers")
TEXTS = (ROOT / "models/sentences_test.txt").read_text().splitlines()


@pytest.fixture(scope="module")
def models(minilm, tmp_path_factory):
    """Two of MiniLM: one that pools and normalises by itself, and one that gives the tokens' vectors."""
    import onnx
    path, tokenizer = minilm
    folder = tokenizer.parent
    if not (folder / "modules.json").exists():
        pytest.skip("models/fetch.py minilm has not been run since it fetches modules.json")
    whole = onnx.load(str(path))
    made = {name: node for node in whole.graph.node for name in node.output}
    tokens = next(name for node in whole.graph.node if node.name.startswith("pooling/") for name in node.input
                  if name in made and made[name].op_type == "LayerNormalization")
    cut = onnx.ModelProto()
    cut.CopyFrom(whole)
    del cut.graph.output[:]
    cut.graph.output.append(onnx.helper.make_tensor_value_info(tokens, onnx.TensorProto.FLOAT, ["batch", "seq", 384]))
    return whole, cut, folder, tmp_path_factory.mktemp("embed")


@pytest.fixture(scope="module")
def reference(models):
    import onnxruntime
    from tokenizers import Tokenizer
    whole, _, folder, _ = models
    session = onnxruntime.InferenceSession(whole.SerializeToString(), providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)

    def embed(text):
        row = tokenizer.encode(text)
        feeds = {"input_ids": row.ids, "attention_mask": row.attention_mask, "token_type_ids": row.type_ids}
        return session.run(None, {name: np.array([values], np.int64) for name, values in feeds.items()})[0][0]

    return embed


@pytest.fixture(scope="module", params=["pools itself", "tokens", "packed"])
def plan(models, request):
    whole, cut, _, folder = models
    path = folder / (request.param.replace(" ", "_") + ".plan")
    if not path.exists():
        pysinter.compile(cut if request.param == "tokens" else whole, path, target="cpu",
                       dims={"batch": (1, 64), "seq": (1, 512)}, packed=request.param == "packed")
    return path


def embed(*words):
    return subprocess.run([sys.executable, "-m", "pysinter", "embed", *map(str, words)], capture_output=True, text=True)


def write_rows(path, texts):
    rows = [{"id": i, "text": text} for i, text in enumerate(texts)]
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".csv":
        import csv
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, ["id", "text"])
            writer.writeheader()
            writer.writerows(rows)
    else:
        pq = pytest.importorskip("pyarrow.parquet")
        import pyarrow
        pq.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=7)
    return path


def check(vectors, texts, reference):
    wanted = np.stack([reference(text) for text in texts])
    assert vectors.shape == wanted.shape
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-4)
    cosine = (vectors * wanted).sum(axis=1) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(wanted, axis=1)
    assert cosine.min() > 0.9999, cosine


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_texts_of_files(models, plan, reference, tmp_path, kind):
    texts = [*TEXTS, TEXTS[0] * 200, "a", ""]  # of very different lengths, one longer than the model takes
    source = write_rows(tmp_path / f"in.{kind}", texts)
    target = tmp_path / ("out.npy" if kind == "csv" else f"out.{kind}")
    done = embed(plan, "--column", "text", "--inputs", source, "--outputs", target, "--model", models[2], "--json",
                 "--batch-tokens", 512)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["texts"] == len(texts) and report["width"] == 384 and report["cut"] == 1 and report["max_length"] == 256
    if kind == "csv":
        vectors = np.load(target)
    elif kind == "jsonl":
        rows = [json.loads(line) for line in target.read_text().splitlines()]
        assert [row["id"] for row in rows] == list(range(len(texts))) and rows[3]["text"] == texts[3]
        vectors = np.array([row["embedding"] for row in rows])
    else:
        import pyarrow.parquet
        table = pyarrow.parquet.read_table(target)
        assert table.schema.names == ["id", "text", "embedding"] and table["text"].to_pylist() == texts
        vectors = np.stack(table["embedding"].to_pylist())
    check(vectors, texts, reference)


def test_options_in_place_of_files(models, tmp_path, reference):
    from pysinter._embed import Embedder
    _, cut, folder, _ = models
    plan = pysinter.compile(cut, target="cpu", dims={"batch": (1, 8), "seq": (1, 128)})
    tokenizer = str(folder / "tokenizer.json")
    check(Embedder(plan, tokenizer=tokenizer, pooling="mean", normalize=True)(TEXTS), TEXTS, reference)
    mean = Embedder(plan, tokenizer=tokenizer, pooling="mean")(TEXTS[:3])
    assert not np.allclose(np.linalg.norm(mean, axis=1), 1, atol=1e-2)
    first, largest = (Embedder(plan, tokenizer=tokenizer, pooling=each)(TEXTS[:3]) for each in ("cls", "max"))
    assert (largest >= first).all() and (largest >= mean).all()
    for options, message in (({"tokenizer": tokenizer}, "nothing says how they are pooled"),
                             ({"pooling": "mean"}, "no tokenizer"),
                             ({"tokenizer": str(tmp_path / "none.json"), "pooling": "mean"}, "cannot read the tokenizer"),
                             ({"model": str(tmp_path / "none")}, "cannot read the model's folder"),
                             ({"tokenizer": tokenizer, "pooling": "mean", "max_length": 129}, "1 to 128 tokens")):
        with pytest.raises(pysinter.UsageError, match=message):
            Embedder(plan, **options)


def test_what_is_refused(models, plan, mlp, tmp_path):
    folder = models[2]
    pysinter.compile(mlp, tmp_path / "mlp.plan", target="cpu")
    source = write_rows(tmp_path / "in.jsonl", ["a", "b"])
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{"text": 7}\n')
    (tmp_path / "junk.jsonl").write_text('{"text": "a"}\nnot json\n')
    (tmp_path / "empty.jsonl").write_text("")
    out = ("--outputs", tmp_path / "out.npy", "--model", folder)
    for words, message in (
            ((plan, "--inputs", source, "--column", "texts", *out), "without 'texts'; it has id, text"),
            ((plan, "--inputs", tmp_path / "bad.jsonl", "--column", "text", *out), "has 7, which is no text"),
            ((plan, "--inputs", tmp_path / "junk.jsonl", "--column", "text", *out), "line 2"),
            ((plan, "--inputs", tmp_path / "empty.jsonl", "--column", "text", *out), "has no rows"),
            ((plan, "--inputs", tmp_path / "none.csv", "--column", "text", *out), "none.csv"),
            ((plan, "--inputs", tmp_path / "in.txt", "--column", "text", *out), ".parquet, .csv and .jsonl"),
            ((plan, "--inputs", source, "--column", "text", "--outputs", tmp_path / "out.csv", "--model", folder),
             "name it .parquet"),
            ((tmp_path / "mlp.plan", "--inputs", source, "--column", "text", *out), "an encoder takes input_ids")):
        done = embed(*words)
        assert done.returncode == 2 and message in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("out*"))
