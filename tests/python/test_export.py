# SPDX-License-Identifier: Apache-2.0
"""pysinter.export: which exporter writes a folder, and what is said if none does."""
import importlib.machinery
import importlib.util
import json
import sys
import types
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("sinter_export", Path(__file__).resolve().parents[2] / "tools/python/pysinter/export.py")
export = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(export)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "model"
    path.mkdir()
    (path / "tokenizer.json").write_text("{}")
    (path / "1_Pooling").mkdir()
    (path / "1_Pooling/config.json").write_text("{}")
    return path


@pytest.fixture
def exporters(monkeypatch):
    """Of the real ones' kinds: what they were asked to write."""
    calls = []

    def use(*installed, failing=()):
        def write(name):
            def call(folder, output, precision):
                calls.append((name, precision))
                if name in failing:
                    raise ValueError("no such architecture")
                (output / "model.onnx").write_text(name)
            return call
        for each in export.EXPORTERS:
            monkeypatch.setattr(each, "write", write(each.name))
            monkeypatch.setattr(each, "is_installed", lambda each=each: each.name in installed)
        return calls
    return use


def config(folder, architecture, **more):
    (folder / "config.json").write_text(json.dumps({"architectures": [architecture], **more}))


def test_the_first_that_takes_a_model_writes_it(folder, exporters, tmp_path):
    exporters("genai", "optimum", "torch")
    config(folder, "LlamaForCausalLM")
    assert export.export(folder, tmp_path / "a") == "genai"
    config(folder, "BertModel")
    assert export.export(folder, tmp_path / "b") == "optimum"
    config(folder, "WhisperForConditionalGeneration", is_encoder_decoder=True)
    assert export.export(folder, tmp_path / "c") == "optimum"
    exporters("torch")
    config(folder, "BertModel")
    assert export.export(folder, tmp_path / "d", "fp16") == "torch"
    assert (tmp_path / "d/tokenizer.json").exists() and (tmp_path / "d/1_Pooling/config.json").exists()


def test_another_one_is_asked_where_one_fails(folder, exporters, tmp_path):
    calls = exporters("genai", "optimum", failing=("genai",))
    config(folder, "NewForCausalLM")
    assert export.export(folder, tmp_path / "out") == "optimum"
    assert [name for name, _ in calls] == ["genai", "optimum"]


def test_what_is_missing_is_said(folder, exporters, tmp_path):
    exporters()
    with pytest.raises(SystemExit, match="config.json"):
        export.export(folder, tmp_path / "out")
    config(folder, "LlamaForCausalLM")
    with pytest.raises(SystemExit, match=r"genai is not installed[\s\S]*torch does not take[\s\S]*pip install 'pysinter\[export\]'"):
        export.export(folder, tmp_path / "out")
    exporters("optimum")
    with pytest.raises(SystemExit, match="optimum does not write int4"):
        export.export(folder, tmp_path / "out", "int4", "optimum")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").write_text("")
    with pytest.raises(SystemExit, match="is not empty"):
        export.export(folder, tmp_path / "full")
    assert not (tmp_path / "out").exists()


def stub(monkeypatch, name, **members):
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize(("architecture", "task"), [("GPT2LMHeadModel", "text-generation-with-past"), ("BertModel", "feature-extraction")])
def test_optimum_is_told_the_task_of_a_folder(folder, monkeypatch, tmp_path, architecture, task):
    """It finds none by itself, unless the model has a name of the hub."""
    class TasksManager:
        @staticmethod
        def infer_task_from_model(model, library_name):
            assert library_name == "transformers"
            return {"GPT2LMHeadModel": "text-generation", "BertModel": "feature-extraction"}[model.__name__]

    calls = []
    stub(monkeypatch, "transformers", **{architecture: type(architecture, (), {})})
    stub(monkeypatch, "optimum")
    stub(monkeypatch, "optimum.exporters")
    stub(monkeypatch, "optimum.exporters.onnx", main_export=lambda path, **options: calls.append((path, options)))
    stub(monkeypatch, "optimum.exporters.tasks", TasksManager=TasksManager)
    config(folder, architecture)
    assert export.export(folder, tmp_path / "out", only="optimum") == "optimum"
    assert calls[0][0] == str(folder) and calls[0][1]["task"] == task, calls


def test_gguf_is_read_by_transformers(exporters, monkeypatch, tmp_path):
    class Reader:
        def __init__(self, file):
            self.file, self.config = file, types.SimpleNamespace(quantization_config="blocks")

        @classmethod
        def from_pretrained(cls, folder, gguf_file, **_):
            if gguf_file != "model.gguf":
                raise ValueError("no such architecture")
            return cls(Path(folder) / gguf_file)

        def save_pretrained(self, folder):
            assert getattr(self, "hf_quantizer", 1) or not hasattr(self.config, "quantization_config")
            config(Path(folder), "GPT2LMHeadModel")

    stub(monkeypatch, "transformers", AutoModelForCausalLM=Reader, AutoTokenizer=Reader)
    exporters("optimum")
    for name in ("model.gguf", "other.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    assert export.export(tmp_path / "model.gguf", tmp_path / "out") == "optimum"
    assert (tmp_path / "out/config.json").exists()
    with pytest.raises(SystemExit, match="other.gguf' is no GGUF file that transformers reads: ValueError: no such architecture"):
        export.export(tmp_path / "other.gguf", tmp_path / "none")
    assert not (tmp_path / "none").exists()
