# SPDX-License-Identifier: Apache-2.0
"""Encoders and encoder-decoders of text in the export zoo."""
from zoo_rows import TOKENS, boxes, hugging, ids, mask, normal, uniform, Row

SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=64,
             max_position_embeddings=64)
HIDDEN = "last_hidden_state"
BART = dict(d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
            encoder_ffn_dim=64, decoder_ffn_dim=64, vocab_size=64, max_position_embeddings=64, pad_token_id=1,
            bos_token_id=0, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=None)
T5 = dict(d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, vocab_size=64, decoder_start_token_id=0)
BOTH = {**TOKENS, "decoder_input_ids": ids("batch", "target")}
UNCACHED = dict(use_cache=False)


def encoders():
    features = dict(task="feature-extraction")
    small = {
        "bert": ("BertModel", {}, dict(optimise="bert", quantize=True)),
        "roberta": ("RobertaModel", dict(pad_token_id=1), dict(optimise="bert")),
        "xlm_roberta": ("XLMRobertaModel", dict(pad_token_id=1), {}),
        "camembert": ("CamembertModel", dict(pad_token_id=1), {}),
        "albert": ("AlbertModel", dict(embedding_size=16), {}),
        "electra": ("ElectraModel", dict(embedding_size=16), dict(optimise="bert")),
        "mpnet": ("MPNetModel", {}, {}),
        "deberta_v2": ("DebertaV2Model", dict(relative_attention=True, pos_att_type=["p2c", "c2p"],
                                              position_buckets=8, norm_rel_ebd="layer_norm"), {}),
        "deberta": ("DebertaModel", dict(relative_attention=True, pos_att_type=["p2c", "c2p"],
                                         max_relative_positions=16), {}),
        "convbert": ("ConvBertModel", dict(embedding_size=16, head_ratio=1, conv_kernel_size=3), {}),
        "roformer": ("RoFormerModel", dict(embedding_size=16), {}),
        "rembert": ("RemBertModel", dict(input_embedding_size=16, output_embedding_size=16), {}),
        "mobilebert": ("MobileBertModel", dict(embedding_size=16, intra_bottleneck_size=32, true_hidden_size=32), {}),
        "nystromformer": ("NystromformerModel", dict(num_landmarks=64, segment_means_seq_len=64), {}),
        "squeezebert": ("SqueezeBertModel", dict(embedding_size=32, q_groups=2, k_groups=2, v_groups=2,
                                                 intermediate_groups=2, output_groups=2), {}),
        "data2vec_text": ("Data2VecTextModel", dict(pad_token_id=1), {}),
        "megatron_bert": ("MegatronBertModel", {}, {}),
        "ernie": ("ErnieModel", {}, {}),
        "esm": ("EsmModel", dict(pad_token_id=1, position_embedding_type="rotary"), {}),
        "splinter": ("SplinterModel", {}, {}),
        "modernbert": ("ModernBertModel", dict(global_attn_every_n_layers=2, local_attention=8, pad_token_id=0,
                                               bos_token_id=0, eos_token_id=1, cls_token_id=0, sep_token_id=1), {}),
        "yoso": ("YosoModel", dict(use_expectation=True), {}),
        "fnet": ("FNetModel", {}, dict(inputs={"input_ids": ids("batch", "seq")})),
        "ibert": ("IBertModel", dict(pad_token_id=1, quant_mode=False), {}),
    }
    rows = {name: hugging(model, HIDDEN, {**SMALL, **config}, **{**features, **settings})
            for name, (model, config, settings) in small.items()}
    rows["distilbert"] = hugging("DistilBertModel", HIDDEN, dict(dim=32, n_layers=2, n_heads=2, hidden_dim=64,
                                                                vocab_size=64, max_position_embeddings=64),
                                 **features, optimise="bert")
    rows["bert_classify"] = hugging("BertForSequenceClassification", "logits", {**SMALL, "num_labels": 3},
                                    task="text-classification", optimise="bert", quantize=True)
    rows["bert_qa"] = hugging("BertForQuestionAnswering", ("start_logits", "end_logits"), SMALL,
                              task="question-answering")
    rows["xlnet"] = hugging("XLNetModel", HIDDEN, dict(d_model=32, n_layer=2, n_head=2, d_inner=64, vocab_size=64))
    rows["flaubert"] = hugging("FlaubertModel", HIDDEN, dict(emb_dim=32, n_layers=2, n_heads=2, n_words=64,
                                                            max_position_embeddings=64))
    rows["funnel"] = hugging("FunnelModel", HIDDEN, dict(d_model=32, block_sizes=[1, 1], n_head=2, d_head=16,
                                                        d_inner=64, vocab_size=64, num_decoder_layers=1),
                             sizes=dict(seq=(12, 8, 20)))
    rows["luke"] = hugging("LukeModel", HIDDEN, {**SMALL, "entity_vocab_size": 8, "entity_emb_size": 16})
    rows["longformer"] = hugging("LongformerModel", HIDDEN, {**SMALL, "attention_window": 8,
                                                            "max_position_embeddings": 66},
                                 sizes=dict(seq=(16, 8, 32)))
    layout = {"input_ids": ids("batch", "seq"), "bbox": boxes("batch", "seq", 4), "attention_mask":
              mask("batch", "seq")}
    rows["layoutlm"] = hugging("LayoutLMModel", HIDDEN, {**SMALL, "max_2d_position_embeddings": 128}, layout)
    rows["lilt"] = hugging("LiltModel", HIDDEN, {**SMALL, "max_2d_position_embeddings": 128,
                                                "channel_shrink_ratio": 2, "pad_token_id": 1}, layout)
    rows["layoutlmv3"] = hugging("LayoutLMv3Model", HIDDEN, {**SMALL, "max_2d_position_embeddings": 128,
                                                            "coordinate_size": 6, "shape_size": 4, "input_size": 32,
                                                            "patch_size": 8, "pad_token_id": 1,
                                                            "rel_2d_pos_bins": 8, "rel_pos_bins": 8},
                                 {**layout, "pixel_values": normal("batch", 3, 32, 32)})
    return rows


def encoder_decoders():
    text2text = dict(task="text2text-generation", fixed=UNCACHED)
    rows = {}
    bart = {"bart": ("BartForConditionalGeneration", {}), "marian": ("MarianMTModel", {}),
            "pegasus": ("PegasusForConditionalGeneration", {}), "mbart": ("MBartForConditionalGeneration", {}),
            "blenderbot": ("BlenderbotForConditionalGeneration", {}),
            "blenderbot_small": ("BlenderbotSmallForConditionalGeneration", {}),
            "m2m100": ("M2M100ForConditionalGeneration", {}),
            "plbart": ("PLBartForConditionalGeneration", {}),
            "pegasus_x": ("PegasusXForConditionalGeneration", dict(num_global_tokens=4, block_size=4))}
    for name, (model, config) in bart.items():
        rows[name] = hugging(model, "logits", {**BART, **config}, BOTH, **text2text)
    for name, model in {"t5": "T5ForConditionalGeneration", "mt5": "MT5ForConditionalGeneration",
                        "umt5": "UMT5ForConditionalGeneration"}.items():
        rows[name] = hugging(model, "logits", T5, BOTH, optimise="", **text2text)
    rows["longt5"] = hugging("LongT5ForConditionalGeneration", "logits", {**T5, "local_radius": 4}, BOTH, **text2text)
    rows["prophetnet"] = hugging("ProphetNetForConditionalGeneration", "logits",
                                 dict(hidden_size=32, num_encoder_layers=2, num_decoder_layers=2,
                                      num_encoder_attention_heads=2, num_decoder_attention_heads=2, ngram=2,
                                      encoder_ffn_dim=64, decoder_ffn_dim=64, vocab_size=64,
                                      max_position_embeddings=64, decoder_start_token_id=0), BOTH, fixed=UNCACHED)
    rows["t5_encoder"] = hugging("T5EncoderModel", HIDDEN, T5, optimise="t5")
    rows["switch"] = hugging("SwitchTransformersForConditionalGeneration", "logits",
                             {**T5, "num_experts": 2, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1,
                              "expert_capacity": 64}, BOTH, fixed=UNCACHED)
    rows["perceiver_text"] = perceiver()
    return rows


def perceiver():
    def make():
        import transformers as t
        config = t.PerceiverConfig(num_latents=8, d_latents=32, d_model=32, num_blocks=1, num_self_attends_per_block=2,
                                   num_self_attention_heads=2, num_cross_attention_heads=2, vocab_size=64,
                                   max_position_embeddings=20)
        return t.PerceiverForMaskedLM(config)
    return Row(make, {"inputs": ids("batch", 20), "attention_mask": mask("batch", 20)}, ("logits",))


def series():
    """Forecasting."""
    past = dict(past_values=normal("batch", 24), past_time_features=normal("batch", 24, 2),
                past_observed_mask=uniform("batch", 24), future_values=normal("batch", 4),
                future_time_features=normal("batch", 4, 2))
    common = dict(prediction_length=4, context_length=16, d_model=16, encoder_layers=1, decoder_layers=1,
                  encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32,
                  num_time_features=2, lags_sequence=[1, 2, 8], use_cache=False)
    rows = {}
    for name, model in {"informer": "InformerModel", "autoformer": "AutoformerModel",
                        "time_series_transformer": "TimeSeriesTransformerModel"}.items():
        rows[name] = hugging(model, HIDDEN, common, past, fixed=dict(return_dict=True))
    patch = dict(context_length=32, patch_length=8, patch_stride=8, num_input_channels=3, d_model=16)
    rows["patchtst"] = hugging("PatchTSTForPrediction", "prediction_outputs",
                               {**patch, "num_attention_heads": 2, "num_hidden_layers": 2, "ffn_dim": 32,
                                "prediction_length": 4, "patch_length": 8}, {"past_values": normal("batch", 32, 3)})
    rows["patchtsmixer"] = hugging("PatchTSMixerForPrediction", "prediction_outputs",
                                   {**patch, "num_layers": 2, "prediction_length": 4},
                                   {"past_values": normal("batch", 32, 3)})
    return rows


def rows():
    return {**encoders(), **encoder_decoders(), **series()}
