#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny models of images and texts as folders of three ONNX files, the layout of transformers.js: vision_encoder.onnx,
embed_tokens.onnx and decoder_model_merged.onnx, beside tokenizer and configurations. Seeded random weights, no download.

  export_vision.py --out FOLDER [--only idefics3,llava]

Needs torch and transformers (requirements-export.txt).
"""
import argparse
import json
from pathlib import Path

import torch
from torch import nn

WORDS = "a and cat cats color describe do dog from in is me of on red see sky tell the there this to tree two what where you".split()
TILES = [f"<row_{r}_col_{c}>" for r in range(1, 5) for c in range(1, 5)]
SPECIAL = ["<pad>", "<bos>", "<eos>", "<unk>", "<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>", "<img>",
           "</img>", "<IMG_CONTEXT>", *TILES]
VOCABULARY = 96
TEXT = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, max_position_embeddings=1024, pad_token_id=0, bos_token_id=1, eos_token_id=2, initializer_range=0.3)
EYE = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, patch_size=8, initializer_range=0.3)
TEMPLATE = ("{{ bos_token }}{% for m in messages %}{{ m['role'] }} : {% for p in m['content'] %}{% if p['type'] == 'text' %}"
            "{{ p['text'] }}{% elif p['type'] == 'image' %}MARKER{% endif %}{% endfor %} <end_of_utterance> {% endfor %}"
            "{% if add_generation_prompt %}assistant :{% endif %}")


def configurations():
    import transformers as hf
    return {
        "idefics3": (hf.Idefics3ForConditionalGeneration, lambda: hf.Idefics3Config(
            text_config=dict(model_type="llama", **TEXT), vision_config=dict(**EYE, image_size=32), scale_factor=2,
            image_token_id=4, pad_token_id=0)),
        "llava": (hf.LlavaForConditionalGeneration, lambda: hf.LlavaConfig(
            text_config=dict(model_type="llama", **TEXT),
            vision_config=dict(model_type="clip_vision_model", **EYE, image_size=32, projection_dim=16), image_token_index=4,
            vision_feature_select_strategy="default", vision_feature_layer=-2, image_seq_length=16)),
        "internvl": (hf.InternVLForConditionalGeneration, lambda: hf.InternVLConfig(
            text_config=dict(model_type="qwen2", **TEXT), vision_config=dict(**{**EYE, "patch_size": [8, 8]}, image_size=[32, 32]),
            image_token_id=10, image_seq_length=4, downsample_ratio=0.5)),
    }


# Of preprocessor_config.json, and the marker of the chat template.
CLIP = dict(image_mean=[0.48145466, 0.4578275, 0.40821073], image_std=[0.26862954, 0.26130258, 0.27577711])
HALF = dict(image_mean=[0.5, 0.5, 0.5], image_std=[0.5, 0.5, 0.5])
COMMON = dict(do_resize=True, do_rescale=True, rescale_factor=1 / 255, do_normalize=True, do_convert_rgb=True)
PROCESSORS = {
    "idefics3": (dict(**COMMON, **HALF, image_processor_type="Idefics3ImageProcessor", resample=1, size={"longest_edge": 96},
                      max_image_size={"longest_edge": 32}, do_image_splitting=True, do_pad=True), "<image>"),
    "llava": (dict(**COMMON, **CLIP, image_processor_type="CLIPImageProcessor", resample=3, size={"shortest_edge": 32},
                   do_center_crop=True, crop_size={"height": 32, "width": 32}), "<image>"),
    "internvl": (dict(**COMMON, **CLIP, image_processor_type="GotOcr2ImageProcessor", resample=3, size={"height": 32, "width": 32},
                      crop_to_patches=False), "<IMG_CONTEXT>"),
}


def seeded(name):
    import transformers as hf
    kind, config = configurations()[name]
    torch.manual_seed(1)
    config = config()
    config._attn_implementation = "eager"
    model = kind(config).eval()
    for part in (config.text_config, config.vision_config):
        part._attn_implementation = "eager"
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.25)
            else:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


class Eye(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, pixel_values):
        inner = self.model.model
        if hasattr(inner, "connector"):
            eye = inner.vision_model
            x = eye.embeddings.patch_embedding(pixel_values).flatten(2).transpose(1, 2)
            x = x + eye.embeddings.position_embedding(self.positions(eye.embeddings.num_patches_per_side))
            return inner.connector(eye.post_layernorm(eye.encoder(inputs_embeds=x).last_hidden_state))
        if hasattr(inner, "vision_tower") and self.model.config.model_type == "llava":
            x = inner.vision_tower(pixel_values, output_hidden_states=True).hidden_states[-2][:, 1:]
            return inner.multi_modal_projector(x)
        return inner.get_image_features(pixel_values=pixel_values)

    @staticmethod
    def positions(side):
        """Of the patches of an image without padding, as transformers finds them by their place: there a loop over images."""
        places = torch.bucketize(torch.arange(side) / side * (1 - 1e-6), torch.arange(1 / side, 1.0, 1 / side), right=True)
        return (places[:, None] * side + places).flatten()


class Decoder(nn.Module):
    def __init__(self, model, layers):
        super().__init__()
        self.inner = getattr(model.model, "text_model", None) or model.model.language_model
        self.head, self.layers = model.lm_head, layers

    def forward(self, inputs_embeds, attention_mask, position_ids, past):
        from transformers import DynamicCache
        cache = DynamicCache()
        for i in range(self.layers):
            cache.update(past[2 * i], past[2 * i + 1], i)
        out = self.inner(inputs_embeds=inputs_embeds, attention_mask=attention_mask, position_ids=position_ids,
                         past_key_values=cache, use_cache=True).last_hidden_state
        return self.head(out), *[x for layer in cache.layers for x in (layer.keys, layer.values)]


def save(model, inputs, path, shapes, inputs_called, outputs_called):
    """torch.onnx's exporter; names of inputs and outputs as Optimum's."""
    import onnx
    program = torch.onnx.export(model, (), kwargs=inputs, dynamo=True, dynamic_shapes=shapes, verbose=False, opset_version=20)
    proto = program.model_proto
    renamed = {}
    for values, names in ((proto.graph.input, inputs_called), (proto.graph.output, outputs_called)):
        for value, name in zip(values, names, strict=True):
            renamed[value.name] = name
            value.name = name
    for node in proto.graph.node:
        for names in (node.input, node.output):
            names[:] = [renamed.get(name, name) for name in names]
    del proto.metadata_props[:]
    for node in proto.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for value in [*proto.graph.value_info, *proto.graph.input, *proto.graph.output, *proto.graph.initializer]:
        if hasattr(value, "metadata_props"):
            del value.metadata_props[:]
    del proto.graph.value_info[:]
    onnx.save(proto, path)


def tokenizer(marker):
    ids = {word: i for i, word in enumerate(SPECIAL + WORDS)}
    for word in ("user", "system", "assistant", ":", ".", "\n"):
        ids[word] = len(ids)
    assert len(ids) <= VOCABULARY, len(ids)
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [{"id": i, "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                              "special": True} for i, name in enumerate(SPECIAL)],
            "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None,
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": False},
            "model": {"type": "WordLevel", "vocab": ids, "unk_token": "<unk>"}}


def export(name, folder):
    from torch.export import Dim
    model = seeded(name)
    folder.mkdir(parents=True, exist_ok=True)
    processor, marker = PROCESSORS[name]
    (folder / "config.json").write_text(json.dumps(json.loads(model.config.to_json_string()), indent=1) + "\n")
    (folder / "preprocessor_config.json").write_text(json.dumps(processor, indent=1) + "\n")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(marker)) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "bos_token": "<bos>", "eos_token": "<eos>",
         "unk_token": "<unk>", "chat_template": TEMPLATE.replace("MARKER", marker)}, indent=1) + "\n")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2], "do_sample": False}) + "\n")
    layers, heads, width = TEXT["num_hidden_layers"], TEXT["num_key_value_heads"], TEXT["hidden_size"] // TEXT["num_attention_heads"]
    # Exporters take a size of 1 for a constant.
    batch, sequence, past, images = Dim("batch"), Dim("sequence_length"), Dim("past_sequence_length"), Dim("images")
    caches = [f"{i}.{part}" for i in range(layers) for part in ("key", "value")]
    rows = {0: batch, 1: sequence}
    with torch.no_grad():
        save(Eye(model), {"pixel_values": torch.randn(2, 3, 32, 32)}, folder / "vision_encoder.onnx", {"pixel_values": {0: images}},
             ["pixel_values"], ["image_features"])
        save(model.get_input_embeddings(), {"input": torch.ones(2, 3, dtype=torch.int64)}, folder / "embed_tokens.onnx",
             {"input": rows}, ["input_ids"], ["inputs_embeds"])
        inputs = {"inputs_embeds": torch.randn(2, 3, TEXT["hidden_size"]), "attention_mask": torch.ones(2, 8, dtype=torch.int64),
                  "position_ids": torch.arange(5, 8)[None].repeat(2, 1), "past": [torch.randn(2, heads, 5, width) for _ in caches]}
        shapes = {"inputs_embeds": rows, "attention_mask": {0: batch, 1: Dim("total_sequence_length")}, "position_ids": rows,
                  "past": [{0: batch, 2: past}] * len(caches)}
        save(Decoder(model, layers), inputs, folder / "decoder_model_merged.onnx", shapes,
             ["inputs_embeds", "attention_mask", "position_ids", *[f"past_key_values.{name}" for name in caches]],
             ["logits", *[f"present.{name}" for name in caches]])
    print(name, [(f.name, f.stat().st_size) for f in sorted(folder.glob("*.onnx"))], flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True, type=Path)
    p.add_argument("--only", default="")
    a = p.parse_args()
    for name in PROCESSORS:
        if not a.only or name in a.only.split(","):
            export(name, a.out / name)


if __name__ == "__main__":
    main()
