# SPDX-License-Identifier: Apache-2.0
"""Small models and data under the names that pages use. Makers are found by the name that a page says; each makes one file
in the folder of all fixtures, once."""
import shutil
import subprocess
import sys
import wave

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from pages import ROOT

sys.path[:0] = [str(ROOT / "models"), str(ROOT / "tests" / "models"), str(ROOT / "tests" / "perf")]
from check_encoders import write_whisper  # noqa: E402

TINY = ROOT / "models" / "tiny"
GENAI = ROOT / "tests" / "conformance" / "genai" / "node" / "test_llama_fp32_cpu" / "model.onnx"


def copy(path):
    return lambda target, _: shutil.copyfile(path, target)


def tokenizer_of_letters(letters):
    """A tokenizer of one letter a token, with an end of texts; no more ids than a tiny decoder has."""
    def make(target, _):
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers
        tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate([*letters, "\u0120"])}, []))  # a blank
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.add_special_tokens(["<end>"])
        tokenizer.save(str(target))
    return make


ALL_LETTERS = [chr(c) for c in range(ord("!"), ord("~") + 1)]
FEW_LETTERS = [c for c in ALL_LETTERS if c.isalpha() or c in "?."]  # the decoder of GENAI has 64 ids


def word_pieces(target, _):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *("##" + letter for letter in letters), "."]
    tokenizer = Tokenizer(models.WordPiece({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(target))


def script(name, *arguments):
    return lambda target, _: subprocess.run([sys.executable, ROOT / "models" / name, *arguments, "--out", target], check=True,
                                            stdout=subprocess.DEVNULL)


minilm = script("build_minilm.py", "--random", "--layers", "2", "--hidden", "64", "--heads", "4", "--positions", "512",
                "--vocabulary", "200", "--spelling", "current")


def sentence(target, _):
    ids = np.array([[2, 10, 20, 30, 3]])
    np.savez(target, input_ids=ids, attention_mask=np.ones_like(ids), token_type_ids=np.zeros_like(ids))


def sound(target, _):
    with wave.open(str(target), "wb") as file:
        file.setnchannels(1), file.setsampwidth(2), file.setframerate(16000)
        file.writeframes((8000 * np.sin(np.arange(16000) * 0.17)).astype("<i2").tobytes())


def whisper(target, _):
    """All files of its folder."""
    write_whisper(target.parent)


def long_decoder(path):
    """A tiny decoder with tables of angles for as many positions as pages say."""
    def make(target, _):
        model = onnx.load(str(path))
        for tensor in model.graph.initializer:
            if tensor.name in ("cosines", "sines", "cos_cache", "sin_cache"):
                value = numpy_helper.to_array(tensor)
                tensor.CopyFrom(numpy_helper.from_array(np.resize(value, (2048, value.shape[1])), tensor.name))
        onnx.save(model, str(target))
    return make


def graph(target, nodes, inputs, outputs, constants=(), opsets=()):
    shapes = lambda pairs: [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in pairs]
    made = helper.make_graph(nodes, "page", shapes(inputs), shapes(outputs),
                             [numpy_helper.from_array(value, name) for name, value in dict(constants).items()])
    opsets = [helper.make_opsetid("", 20), *(helper.make_opsetid(domain, 1) for domain in opsets)]
    onnx.save(helper.make_model(made, opset_imports=opsets, ir_version=9), str(target))


F32 = TensorProto.FLOAT
WEIGHTS = np.random.default_rng(1).standard_normal


def mlp(target, _, seed=1):
    weights = np.random.default_rng(seed).standard_normal((8, 8)).astype(np.float32)
    graph(target, [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
          [("x", F32, ["batch", 8])], [("y", F32, ["batch", 8])], {"w": weights})


def masked(target, _):
    """Two inputs, of which products are large enough for 8 bits."""
    graph(target, [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Mul", ["h", "mask"], ["y"])],
          [("x", F32, ["batch", 64]), ("mask", F32, ["batch", 64])], [("y", F32, ["batch", 64])],
          {"w": WEIGHTS((64, 64)).astype(np.float32)})


def table_model(name):
    """Features of two columns, as a pipeline of scikit-learn has them: a score and a label."""
    def make(target, _):
        graph(target, [helper.make_node("MatMul", [name, "w"], ["score"]),
                       helper.make_node("ArgMax", ["score"], ["label"], axis=1, keepdims=0)],
              [(name, F32, ["rows", 2])], [("score", F32, ["rows", 3]), ("label", TensorProto.INT64, ["rows"])],
              {"w": WEIGHTS((2, 3)).astype(np.float32)})
    return make


def relu(target, _):
    graph(target, [helper.make_node("Relu", ["x"], ["y"], name="relu")], [("x", F32, ["batch", 1024])],
          [("y", F32, ["batch", 1024])])


def norm(target, _):
    graph(target, [helper.make_node("LayerNormalization", ["x", "scale", "bias"], ["y"], name="norm")],
          [("x", F32, ["batch", 1024])], [("y", F32, ["batch", 1024])],
          {"scale": np.ones(1024, np.float32), "bias": np.zeros(1024, np.float32)})


def plan_of(model, *options):
    """The plan of another fixture for this machine's CPU."""
    def make(target, fixtures):
        subprocess.run([fixtures.sinter, "compile", fixtures.path(model), "-o", target, "--target=cpu", "--quiet", *options], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return make


def text(value):
    return lambda target, _: target.write_text(value)


def rows(target, fixtures):
    code = """
import sys, pyarrow as pa, pyarrow.parquet
pyarrow.parquet.write_table(pa.table({"id": [1, 2, 3], "text": ["a sky", "grass is", "green"], "age": pa.array([30.0, 40, 50], "float32"),
                                      "income": pa.array([1.0, 2, 3], "float32")}), sys.argv[1])"""
    subprocess.run([fixtures.python, "-c", code, target], check=True)


def tuned(target, _):
    from safetensors.numpy import save_file
    save_file({"w": np.random.default_rng(2).standard_normal((8, 8)).astype(np.float32)}, str(target))


MAKERS = {
    "minilm.onnx": minilm,
    "sentence.npz": sentence,
    "decoder.onnx": long_decoder(TINY / "decoder.onnx"),
    "tokenizer.json": tokenizer_of_letters(ALL_LETTERS),
    "bert/tokenizer.json": word_pieces,
    "whisper_base_encoder.onnx": copy(TINY / "speech_encoder.onnx"),
    "whisper_base_decoder.onnx": copy(TINY / "speech_decoder.onnx"),
    "whisper_tokenizer.json": copy(ROOT / "tests" / "tools" / "goldens" / "speech_tokenizer.json"),
    "whisper_base_tokenizer.json": copy(ROOT / "tests" / "tools" / "goldens" / "speech_tokenizer.json"),
    "speech.wav": sound,
    "relu.onnx": relu,
    "norm.onnx": norm,
    "mlp.onnx": mlp,
    "model.onnx": mlp,
    "tuned.onnx": lambda target, fixtures: mlp(target, fixtures, seed=2),
    "tuned.safetensors": tuned,
    "model.plan": plan_of("mlp.onnx"),
    "pipeline.onnx": table_model("x"),
    "pipeline.plan": plan_of("pipeline.onnx"),
    "rows.npz": lambda target, _: np.savez(target, X=WEIGHTS((4, 2)).astype(np.float32)),
    "rows.parquet": rows,
}
# Folders of models.
SMOLLM2 = {"models/cache/smollm2/model.onnx": long_decoder(TINY / "decoder_q4.onnx"),
           "models/cache/smollm2/tokenizer.json": tokenizer_of_letters(ALL_LETTERS),
           "models/cache/smollm2/chat_template.jinja": text("{{ messages[-1].content }}")}
MINILM = {"models/cache/minilm/model.onnx": minilm, "models/cache/minilm/tokenizer.json": word_pieces}
WHISPER = {f"models/cache/whisper_base/{name}": whisper
           for name in ("config.json", "model.safetensors", "preprocessor_config.json", "tokenizer.json")}
# Of one page, where its files are of another kind than elsewhere; "" is the folder that a block begins in.
OF_PAGES = {
    "README.md": {**SMOLLM2, **MINILM, **WHISPER},
    "tools/cli/README.md": {"model.onnx": long_decoder(GENAI), "tokenizer.json": tokenizer_of_letters(FEW_LETTERS), **SMOLLM2},
    "tools/serve/README.md": {**SMOLLM2, **MINILM},
    "tools/speech/README.md": WHISPER,
    "tools/python/README.md": {"model.onnx": masked, "minilm.plan": plan_of("minilm.onnx"),
                               "models/cache/minilm/tokenizer.json": word_pieces},
    "tools/python/examples/README.md": {"tokenizer.json": tokenizer_of_letters(ALL_LETTERS)},
    "runtime/README.md": {"minilm.plan": plan_of("minilm.onnx")},
    "runtime/c/README.md": {"model.plan": plan_of("int64.onnx")},
    "runtime/engine/README.md": {"decoder.plan": plan_of("decoder.onnx", "--serve")},
    "models/README.md": {"pipeline.onnx": table_model("X")},
}


def int64(target, _):
    graph(target, [helper.make_node("Cast", ["ids"], ["y"], to=F32)], [("ids", TensorProto.INT64, ["batch", 64])],
          [("y", F32, ["batch", 64])])


MAKERS["int64.onnx"] = int64


class Fixtures:
    """Files by page and name; `python` has the package (None: there is none)."""

    def __init__(self, folder, sinter, python):
        self.folder, self.sinter, self.python = folder, sinter, python

    def path(self, name, page=""):
        maker = OF_PAGES.get(page, {}).get(name) or MAKERS[name]
        place = self.folder / (page.replace("/", "_") if name in OF_PAGES.get(page, {}) else "all") / name
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            maker(place, self)
        return place

    def bring(self, page, text, folder):
        """Puts those files that `text` names into `folder`, and into models/cache below it where it goes there."""
        if "models/operators" in text:
            shutil.copytree(ROOT / "models" / "operators", folder / "models" / "operators", dirs_exist_ok=True)
        for name in [*MAKERS, *OF_PAGES.get(page, {})]:
            if name.split("/")[-1] not in text and name not in OF_PAGES.get(page, {}):
                continue
            if name == "rows.parquet" and self.python is None:
                continue
            source = self.path(name, page)
            for target in (folder / name, *([folder / "models" / "cache" / name] if "models/cache" in text else [])):
                target.parent.mkdir(parents=True, exist_ok=True)
                if not target.exists():
                    shutil.copyfile(source, target)
