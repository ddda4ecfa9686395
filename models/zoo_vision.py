# SPDX-License-Identifier: Apache-2.0
"""Vision, and vision with text, in the export zoo."""
from zoo_rows import SHORT, Row, boxes, hugging, ids, mask, normal, ones, positions

VIT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=32,
           patch_size=8)
TEXT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=64,
            max_position_embeddings=32)
HIDDEN = "last_hidden_state"


def image(height=32, width=32, channels=3):
    return {"pixel_values": normal("batch", channels, height, width)}


ANY_SIZE = image("height", "width")


def config(name, **arguments):
    """A nested configuration, made when the row is."""
    def make():
        import transformers as t
        return getattr(t, name)(**arguments)
    return make


def classifiers():
    rows = {}
    vit = {"vit": ("ViTForImageClassification", {}), "deit": ("DeiTForImageClassification", {}),
           "beit": ("BeitForImageClassification", dict(use_relative_position_bias=True)),
           "dinov2": ("Dinov2ForImageClassification", {}), "vit_msn": ("ViTMSNForImageClassification", {}),
           "data2vec_vision": ("Data2VecVisionForImageClassification", {}),
           "ijepa": ("IJepaForImageClassification", {})}
    for name, (model, more) in vit.items():
        rows[name] = hugging(model, "logits", {**VIT, **more, "num_labels": 10}, image(), task="image-classification",
                             optimise="vit" if name == "vit" else "", quantize=name == "vit")
    rows["dinov2_any"] = hugging("Dinov2Model", HIDDEN, VIT, ANY_SIZE)
    rows["vit_any"] = hugging("ViTModel", HIDDEN, VIT, ANY_SIZE, fixed=dict(interpolate_pos_encoding=True))
    rows["vit_mae"] = hugging("ViTMAEForPreTraining", "logits", {**VIT, "decoder_hidden_size": 32,
                                                                "decoder_num_hidden_layers": 1,
                                                                "decoder_num_attention_heads": 2,
                                                                "decoder_intermediate_size": 64},
                              {**image(), "noise": normal("batch", 16)})
    swin = dict(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[1, 2], window_size=4)
    rows["swin"] = hugging("SwinForImageClassification", "logits", {**swin, "num_labels": 10}, image(),
                           task="image-classification")
    rows["swinv2"] = hugging("Swinv2ForImageClassification", "logits", {**swin, "num_labels": 10}, image())
    rows["swin_any"] = hugging("SwinModel", HIDDEN, swin, ANY_SIZE,
                               sizes=dict(height=(32, 64, 48), width=(32, 32, 80)))
    rows["donut_swin"] = hugging("DonutSwinModel", HIDDEN, swin, image())
    rows["swin2sr"] = hugging("Swin2SRForImageSuperResolution", "reconstruction",
                              dict(image_size=16, patch_size=1, embed_dim=8, depths=[2], num_heads=[2],
                                   window_size=4, upscale=2), image(16, 16))
    stages = dict(depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32])
    rows["convnext"] = hugging("ConvNextForImageClassification", "logits", {**stages, "num_labels": 10}, ANY_SIZE,
                               task="image-classification")
    rows["convnextv2"] = hugging("ConvNextV2ForImageClassification", "logits", {**stages, "num_labels": 10}, ANY_SIZE)
    for name, model, layer in (("resnet", "ResNetForImageClassification", "basic"),
                               ("regnet", "RegNetForImageClassification", "y")):
        rows[name] = hugging(model, "logits", {**stages, "embedding_size": 8, "layer_type": layer, "num_labels": 10,
                                               **({"groups_width": 4} if name == "regnet" else {})}, ANY_SIZE,
                             task="image-classification", quantize=name == "resnet")
    rows["bit"] = hugging("BitForImageClassification", "logits", {**stages, "embedding_size": 8, "num_groups": 4,
                                                                  "num_labels": 10}, ANY_SIZE)
    rows["segformer"] = hugging("SegformerForSemanticSegmentation", "logits", dict(
        depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 32], num_attention_heads=[1, 2, 2, 4],
        decoder_hidden_size=16, num_labels=5), ANY_SIZE, task="semantic-segmentation")
    rows["mobilevit"] = hugging("MobileViTForImageClassification", "logits", dict(
        image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 12, 16, 16, 24, 32], num_attention_heads=2,
        num_labels=10), image(64, 64), task="image-classification")
    rows["mobilevitv2"] = hugging("MobileViTV2ForImageClassification", "logits", dict(
        image_size=64, width_multiplier=0.25, num_labels=10), image(64, 64))
    rows["mobilevit_any"] = hugging("MobileViTModel", HIDDEN, dict(
        image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 12, 16, 16, 24, 32],
        num_attention_heads=2), ANY_SIZE)
    rows["pvt_v2"] = hugging("PvtV2ForImageClassification", "logits", dict(
        depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 32], num_attention_heads=[1, 2, 2, 4], num_labels=10), ANY_SIZE)
    rows["pvt"] = hugging("PvtForImageClassification", "logits", dict(
        image_size=64, depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 32], num_attention_heads=[1, 2, 2, 4],
        sequence_reduction_ratios=[4, 2, 2, 1], num_labels=10), image(64, 64))
    rows["levit"] = hugging("LevitForImageClassification", "logits", dict(
        image_size=64, hidden_sizes=[32, 32, 32], num_attention_heads=[2, 2, 2], depths=[1, 1, 1],
        key_dim=[8, 8, 8], num_labels=10), image(64, 64))
    rows["poolformer"] = hugging("PoolFormerForImageClassification", "logits", {**stages, "num_labels": 10}, ANY_SIZE)
    rows["focalnet"] = hugging("FocalNetForImageClassification", "logits", dict(
        image_size=32, patch_size=4, embed_dim=8, hidden_sizes=[8, 16], depths=[1, 1], focal_levels=[2, 2],
        focal_windows=[3, 3], num_labels=10), image())
    rows["cvt"] = hugging("CvtForImageClassification", "logits", dict(
        embed_dim=[8, 16, 32], num_heads=[1, 2, 2], depth=[1, 1, 1], num_labels=10), image(64, 64))
    rows["efficientnet"] = hugging("EfficientNetForImageClassification", "logits", dict(
        width_coefficient=0.25, depth_coefficient=0.3, hidden_dim=64, image_size=64, num_labels=10), ANY_SIZE)
    rows["mobilenet_v1"] = hugging("MobileNetV1ForImageClassification", "logits", dict(
        depth_multiplier=0.25, min_depth=8, num_labels=10, image_size=64), ANY_SIZE)
    rows["mobilenet_v2"] = hugging("MobileNetV2ForImageClassification", "logits", dict(
        depth_multiplier=0.1, min_depth=8, num_labels=10, image_size=64), ANY_SIZE, quantize=True)
    rows["hiera"] = hugging("HieraForImageClassification", "logits", dict(
        embed_dim=16, image_size=[64, 64], depths=[1, 1], num_heads=[1, 2], masked_unit_size=[4, 4], query_stride=[2, 2],
        num_query_pool=1, embed_dim_multiplier=2.0, num_labels=10), image(64, 64))
    return rows


def dense():
    """Detection, segmentation and depth."""
    rows = {}
    stages = dict(depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32], embedding_size=8, layer_type="basic",
                  out_features=["stage4"])
    detr = dict(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None,
                backbone_config=config("ResNetConfig", **stages), d_model=32, encoder_layers=1, decoder_layers=1,
                encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64,
                num_queries=5, num_labels=4)
    found = ("logits", "pred_boxes")
    masked = {**ANY_SIZE, "pixel_mask": ones("batch", "height", "width")}
    rows["detr"] = hugging("DetrForObjectDetection", found, detr, ANY_SIZE)
    rows["detr_masked"] = hugging("DetrForObjectDetection", found, detr, masked)
    rows["table_transformer"] = hugging("TableTransformerForObjectDetection", found, detr, ANY_SIZE)
    rows["conditional_detr"] = hugging("ConditionalDetrForObjectDetection", found, detr, ANY_SIZE)
    many = dict(stages, out_features=["stage2", "stage3", "stage4"])
    rows["deformable_detr"] = hugging("DeformableDetrForObjectDetection", found, {
        **detr, "backbone_config": config("ResNetConfig", **many), "num_feature_levels": 3}, image(64, 64))
    rows["yolos"] = hugging("YolosForObjectDetection", found, {**VIT, "image_size": [32, 48],
                                                               "num_detection_tokens": 5, "num_labels": 4},
                            image(32, 48))
    rows["yolos_any"] = hugging("YolosForObjectDetection", found, {**VIT, "image_size": [32, 48],
                                                                   "num_detection_tokens": 5, "num_labels": 4},
                                ANY_SIZE)
    rows["rt_detr"] = hugging("RTDetrForObjectDetection", found, dict(
        backbone_config=config("RTDetrResNetConfig", **{**many, "downsample_in_bottleneck": False}), use_timm_backbone=False,
        use_pretrained_backbone=False, backbone=None, encoder_hidden_dim=32, encoder_in_channels=[16, 24, 32],
        encoder_ffn_dim=32, encoder_attention_heads=2, d_model=32, decoder_in_channels=[32, 32, 32],
        decoder_ffn_dim=32, decoder_attention_heads=2, decoder_layers=1, num_queries=5, num_labels=4,
        num_denoising=0, disable_custom_kernels=True, anchor_image_size=None), image(64, 64))
    dpt = dict(VIT, num_hidden_layers=4, neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=16,
               backbone_out_indices=[0, 1, 2, 3], image_size=32)
    rows["dpt"] = hugging("DPTForDepthEstimation", "predicted_depth", dpt, image())
    back = config("Dinov2Config", **{**VIT, "num_hidden_layers": 4}, out_indices=[1, 2, 3, 4],
                  reshape_hidden_states=False, apply_layernorm=True)
    rows["depth_anything"] = hugging("DepthAnythingForDepthEstimation", "predicted_depth", dict(
        backbone_config=back, patch_size=8, reassemble_hidden_size=32, neck_hidden_sizes=[8, 8, 16, 16],
        fusion_hidden_size=16, head_hidden_size=8), ANY_SIZE)
    rows["glpn"] = hugging("GLPNForDepthEstimation", "predicted_depth", dict(
        depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 32], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16),
        ANY_SIZE)
    convnext = config("ConvNextConfig", depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32],
                      out_features=["stage1", "stage2", "stage3", "stage4"])
    rows["upernet"] = hugging("UperNetForSemanticSegmentation", "logits", dict(
        backbone_config=convnext, hidden_size=16, use_auxiliary_head=False, num_labels=4), image(64, 64))
    sam = dict(hidden_size=32, output_channels=16, num_hidden_layers=2, num_attention_heads=2, image_size=64,
               patch_size=8, window_size=4, global_attn_indexes=[1], mlp_dim=64)
    prompt = dict(hidden_size=16, image_size=64, patch_size=8, image_embedding_size=8, mask_input_channels=4)
    decode = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, mlp_dim=32, iou_head_hidden_dim=16)
    whole = dict(vision_config=config("SamVisionConfig", **sam), prompt_encoder_config=config(
        "SamPromptEncoderConfig", **prompt), mask_decoder_config=config("SamMaskDecoderConfig", **decode))
    rows["sam_encoder"] = hugging("SamModel", HIDDEN, whole, image(64, 64), nested=("vision_encoder",))
    rows["sam_decoder"] = hugging("SamModel", ("iou_scores", "pred_masks"), whole, {
        "image_embeddings": normal("batch", 16, 8, 8), "input_points": normal("batch", 1, "queries", 2),
        "input_labels": ones("batch", 1, "queries")}, fixed=dict(multimask_output=False))
    return rows


def towers():
    """Vision with text, and video."""
    rows = {}
    clip = {"clip": ("CLIP", True), "siglip": ("Siglip", False)}
    for name, (prefix, end) in clip.items():
        text = {**TEXT, **({"eos_token_id": 63, "bos_token_id": 0} if end else {})}
        inputs = {"input_ids": ids("batch", "seq"), "attention_mask": mask("batch", "seq")}
        pooled = (HIDDEN, "pooler_output")
        rows[f"{name}_text"] = hugging(f"{prefix}TextModel", pooled, text, inputs, sizes=SHORT,
                                       optimise="clip" if end else "")
        rows[f"{name}_image"] = hugging(f"{prefix}VisionModel", pooled, VIT, image(), optimise="clip" if end else "")
        rows[name] = hugging(f"{prefix}Model", ("logits_per_image", "text_embeds", "image_embeds"),
                             dict(text_config=text, vision_config=VIT, **({"projection_dim": 16} if end else {})),
                             {"input_ids": ids("texts", "seq"), **image(),
                              "attention_mask": mask("texts", "seq")}, sizes=dict(texts=(4, 2, 5), **SHORT),
                             task="zero-shot-image-classification" if end else "")
    rows["clip_any"] = hugging("CLIPVisionModel", HIDDEN, VIT, ANY_SIZE, fixed=dict(interpolate_pos_encoding=True))
    rows["blip_image"] = hugging("BlipVisionModel", HIDDEN, VIT, image())
    rows["blip_text"] = hugging("BlipTextModel", HIDDEN, {**TEXT, "encoder_hidden_size": 32}, {
        "input_ids": ids("batch", "seq"), "attention_mask": mask("batch", "seq"),
        "encoder_hidden_states": normal("batch", 17, 32)}, fixed=dict(is_decoder=False), sizes=SHORT)
    owl_text = {**TEXT, "max_position_embeddings": 16}
    rows["owlvit"] = hugging("OwlViTForObjectDetection", ("logits", "pred_boxes"),
                             dict(text_config=owl_text, vision_config=VIT, projection_dim=16),
                             {"input_ids": ids("texts", 16), **image(), "attention_mask": mask("texts", 16)},
                             sizes=dict(texts=(4, 2, 9), batch=(2, 1, 3)))
    rows["clipseg"] = hugging("CLIPSegForImageSegmentation", "logits", dict(
        text_config={**TEXT, "eos_token_id": 63}, vision_config={**VIT, "num_hidden_layers": 3}, projection_dim=16,
        extract_layers=[0, 1, 2], reduce_dim=16, decoder_num_attention_heads=2, decoder_intermediate_size=32),
        {"input_ids": ids("batch", "seq"), **image(), "attention_mask": mask("batch", "seq")}, sizes=SHORT)
    rows["vilt"] = hugging("ViltModel", HIDDEN, {**TEXT, **VIT, "vocab_size": 64}, {
        "input_ids": ids("batch", "seq"), **image(), "attention_mask": mask("batch", "seq"),
        "pixel_mask": ones("batch", 32, 32)}, sizes=SHORT)
    rows["trocr_decoder"] = hugging("TrOCRForCausalLM", "logits", dict(
        d_model=32, decoder_layers=2, decoder_attention_heads=2, decoder_ffn_dim=64, vocab_size=64,
        max_position_embeddings=32, cross_attention_hidden_size=32, is_decoder=True, use_cache=False), {
        "input_ids": ids("batch", "seq"), "encoder_hidden_states": normal("batch", 17, 32)},
        fixed=dict(use_cache=False), sizes=SHORT)
    video = {"pixel_values": normal("batch", 4, 3, 32, 32)}
    rows["timesformer"] = hugging("TimesformerForVideoClassification", "logits", {**VIT, "num_frames": 4,
                                                                                 "num_labels": 5}, video)
    rows["videomae"] = hugging("VideoMAEForVideoClassification", "logits", {**VIT, "num_frames": 4, "tubelet_size": 2,
                                                                           "num_labels": 5}, video)
    rows["vivit"] = hugging("VivitForVideoClassification", "logits", {**VIT, "num_frames": 4, "video_size": [4, 32, 32],
                                                                     "tubelet_size": [2, 8, 8], "num_labels": 5},
                            video)
    return rows


def timm_rows():
    """timm's and torchvision's."""
    def timm_model(name, **arguments):
        def make():
            import timm
            return timm.create_model(name, num_classes=10, **arguments)
        return make

    def vision_model(name, **arguments):
        def make():
            import torchvision
            return getattr(torchvision.models, name)(num_classes=10, **arguments)
        return make

    stages = dict(depths=(1, 1, 1, 1), dims=(8, 16, 24, 32))
    blocks = dict(embed_dim=32, depth=2, num_heads=2)
    fixed = {
        "mixer": timm_model("mixer_s32_224", img_size=32, patch_size=8, num_blocks=2, embed_dim=32),
        "cait": timm_model("cait_xxs24_224", img_size=32, patch_size=8, **blocks),
        "xcit": timm_model("xcit_nano_12_p16_224", img_size=32, **blocks),
        "eva02": timm_model("eva02_tiny_patch14_224", img_size=32, patch_size=8, **blocks),
        "nest": timm_model("nest_tiny", img_size=32, patch_size=2, embed_dims=(16, 16, 32), num_heads=(1, 2, 2),
                           depths=(1, 1, 1)),
        "coatnet": timm_model("coatnet_nano_rw_224", img_size=64, embed_dim=(16, 16, 32, 32), depths=(1, 1, 1, 1),
                              stem_width=8),
        "maxvit": timm_model("maxvit_nano_rw_256", img_size=64, embed_dim=(32, 32, 32, 32), depths=(1, 1, 1, 1),
                             stem_width=8),
        "convmixer": timm_model("convmixer_768_32", dim=16, depth=2),
    }
    free = {
        "timm_convnext": timm_model("convnext_atto", **stages),
        "timm_resnet": timm_model("resnet10t", channels=(8, 16, 24, 32), stem_width=4),
        "ghostnet": timm_model("ghostnet_050", width=0.2),
        "edgenext": timm_model("edgenext_xx_small", depths=(1, 1, 1, 1), dims=(8, 16, 24, 32), heads=(1, 1, 1, 2)),
        "repvgg": timm_model("repvgg_a0", width_multiplier=(0.125, 0.125, 0.125, 0.0625)),
        "mobilenetv3": vision_model("mobilenet_v3_small", width_mult=0.25),
        "mobilenetv2": vision_model("mobilenet_v2", width_mult=0.2),
        "mnasnet": vision_model("MNASNet", alpha=0.15),
        "densenet": vision_model("DenseNet", growth_rate=4, block_config=(2, 2, 2), num_init_features=8),
        "squeezenet": vision_model("squeezenet1_1"),
        "shufflenet": vision_model("ShuffleNetV2", stages_repeats=[2, 2, 2], stages_out_channels=[8, 16, 32, 64, 64]),
        "regnet_tv": vision_model("regnet_y_400mf"),
        "googlenet": vision_model("googlenet", aux_logits=False, init_weights=False),
    }
    large = ("regnet_tv", "googlenet", "squeezenet")
    result = {name: Row(make, {"image": normal("batch", 3, *(2 * (64,) if name in ("coatnet", "maxvit") else
                                                             2 * (32,)))}, positional=True)
              for name, make in fixed.items()}
    result.update({name: Row(make, {"image": normal("batch", 3, "height", "width")}, positional=True)
                   for name, make in free.items() if name not in large})
    return result


def rows():
    return {**classifiers(), **dense(), **towers(), **timm_rows()}
