# SPDX-License-Identifier: Apache-2.0
"""A Hugging Face folder, or a GGUF file, as ONNX, by an exporter that knows the model, for what `sinter` does not read by itself.

    python -m pysinter.export MODEL -o OUTPUT         then: sinter chat OUTPUT, sinter embed OUTPUT, ..

ONNX Runtime GenAI's builder takes decoders, Optimum nearly all, torch.export encoders of texts. The first that is installed and takes the
model writes it; --with chooses one. They come with `pip install 'pysinter[export]'`, but Optimum: it wants an older transformers, so
`pip install pysinter optimum-onnx` in an environment of its own. OUTPUT also gets the tokenizer and other files of texts.
"""
from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

# What lies beside a model and says how its texts are made.
TEXT_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "chat_template.json", "special_tokens_map.json",
              "generation_config.json", "preprocessor_config.json", "config.json", "modules.json", "sentence_bert_config.json",
              "1_Pooling/config.json")
ENCODER_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def flatten_rotation(config: Any) -> None:
    """GenAI's builder reads one rotary embedding of most models, and what else there is by older names."""
    for part in (config, getattr(config, "text_config", None)):
        rotations = getattr(part, "rope_parameters", None)
        if not rotations or str(part.model_type).startswith("gemma4"):
            continue
        if "full_attention" in rotations:
            part.rope_parameters = {**rotations["full_attention"]}
            part.rope_theta = rotations["full_attention"]["rope_theta"]
            part.rope_local_base_freq = rotations["sliding_attention"]["rope_theta"]
        elif rotations["rope_type"] == "longrope":
            part.rope_scaling = {**rotations, "type": "longrope"}


def by_genai(folder: Path, output: Path, precision: str, name: str = "", provider: str = "cpu", options: tuple[str, ...] = (),
             adapt: Callable[[Any], None] = lambda config: None) -> None:
    from onnxruntime_genai.models.builder import create_model, parse_extra_options
    arguments = (name, str(folder), str(output), precision, provider, str(output / "cache"))
    extra = parse_extra_options(*arguments, list(options))
    flatten_rotation(extra["hf_details"]["hf_config"])
    adapt(extra["hf_details"]["hf_config"])
    create_model(*arguments, **extra)
    shutil.rmtree(output / "cache", ignore_errors=True)


def by_optimum(folder: Path, output: Path, precision: str) -> None:
    import transformers
    from optimum.exporters.onnx import main_export
    from optimum.exporters.tasks import TasksManager
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    # Of a folder Optimum does not find the task by itself.
    task = TasksManager.infer_task_from_model(getattr(transformers, config["architectures"][0]), library_name="transformers")
    if generates(config):
        task += "-with-past"
    main_export(str(folder), output=str(output), task=task, dtype=precision, library_name="transformers")


def by_torch(folder: Path, output: Path, precision: str) -> None:
    import inspect

    import torch
    from transformers import AutoModel
    model = AutoModel.from_pretrained(str(folder), dtype={"fp32": torch.float32, "fp16": torch.float16}[precision]).eval()
    taken = inspect.signature(model.forward).parameters
    names = [name for name in ENCODER_INPUTS if name in taken
             and (name != "token_type_ids" or getattr(model.config, "type_vocab_size", 0) > 1)]
    example = {name: torch.ones((2, 8), dtype=torch.int64) for name in names}
    free = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")}
    program = torch.onnx.export(model, (), kwargs=example, dynamo=True, input_names=names, output_names=["last_hidden_state"],
                                dynamic_shapes=dict.fromkeys(names, free))
    program.save(str(output / "model.onnx"))


class Exporter:
    def __init__(self, name: str, package: str, takes: Callable[[dict[str, Any]], bool], precisions: tuple[str, ...],
                 write: Callable[[Path, Path, str], None]) -> None:
        self.name, self.package, self.takes, self.precisions, self.write = name, package, takes, precisions, write

    def is_installed(self) -> bool:
        try:
            return importlib.util.find_spec(self.package) is not None
        except ModuleNotFoundError:  # of the package that it is in
            return False


def _ends(config: dict[str, Any], *endings: str) -> bool:
    return any(name.endswith(endings) for name in config.get("architectures") or [])


def generates(config: dict[str, Any]) -> bool:
    return _ends(config, "ForCausalLM", "ForConditionalGeneration", "LMHeadModel")


EXPORTERS = [
    Exporter("genai", "onnxruntime_genai", lambda config: generates(config) and not config.get("is_encoder_decoder"),
             ("fp32", "fp16", "int4"), by_genai),
    Exporter("optimum", "optimum.exporters.onnx", lambda config: True, ("fp32", "fp16"), by_optimum),
    Exporter("torch", "torch", lambda config: not generates(config), ("fp32", "fp16"), by_torch),
]


def unpack_gguf(file: Path, folder: Path) -> None:
    """The file as a Hugging Face folder, if transformers knows its architecture."""
    import transformers
    # The newer one keeps the file's blocks, which it cannot save.
    plain = {"quantization_config": transformers.GgufConfig(dequantize=True)} if hasattr(transformers, "GgufConfig") else {}
    model = transformers.AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name, dtype="float32", **plain)
    model.hf_quantizer = None
    vars(model.config).pop("quantization_config", None)
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name).save_pretrained(folder)


def export(folder: Path, output: Path, precision: str = "fp32", only: str | None = None) -> str:
    """Writes `output` and returns the name of the exporter. Raises SystemExit with a message that says what to do."""
    if folder.is_file():
        with tempfile.TemporaryDirectory() as unpacked:
            try:
                unpack_gguf(folder, Path(unpacked))
            except Exception as error:  # noqa: BLE001: of many kinds
                raise SystemExit(f"error: '{folder}' is no GGUF file that transformers reads: {type(error).__name__}: {str(error)[:500]}") from None
            return export(Path(unpacked), output, precision, only)
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SystemExit(f"error: '{folder}' is no Hugging Face folder: config.json: {error}") from None
    if output.exists() and any(output.iterdir()):
        raise SystemExit(f"error: '{output}' is not empty")
    tried = []
    for exporter in EXPORTERS:
        if only not in (None, exporter.name):
            continue
        if not exporter.takes(config):
            tried.append(f"{exporter.name} does not take {config.get('architectures')}")
        elif precision not in exporter.precisions:
            tried.append(f"{exporter.name} does not write {precision}")
        elif not exporter.is_installed():
            tried.append(f"{exporter.name} is not installed ({exporter.package})")
        else:
            output.mkdir(parents=True, exist_ok=True)
            try:
                exporter.write(folder, output, precision)
            except Exception as error:  # noqa: BLE001: another exporter may know the model
                tried.append(f"{exporter.name}: {type(error).__name__}: {str(error)[:500]}")
                shutil.rmtree(output)
                continue
            for name in TEXT_FILES:
                if (folder / name).is_file() and not (output / name).exists():
                    (output / name).parent.mkdir(exist_ok=True)
                    shutil.copyfile(folder / name, output / name)
            return exporter.name
    raise SystemExit(f"error: no exporter wrote '{folder}':\n  " + "\n  ".join(tried) + "\n`pip install 'pysinter[export]'` has genai and "
                     "torch; `pip install pysinter optimum-onnx`, in an environment of its own, has Optimum")


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pysinter.export", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="MODEL", type=Path, help="folder of config.json, weights and tokenizer, or a GGUF file")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder that is made")
    parser.add_argument("--precision", choices=("fp32", "fp16", "int4"), default="fp32", help="of the weights (fp32)")
    parser.add_argument("--with", dest="only", choices=[each.name for each in EXPORTERS], help="this exporter alone")
    arguments = parser.parse_args(words)
    name = export(arguments.folder, arguments.output, arguments.precision, arguments.only)
    print(f"{arguments.output}: written by {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
