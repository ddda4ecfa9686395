# SPDX-License-Identifier: Apache-2.0
"""Speech and sound in the export zoo."""
from zoo_rows import SHORT, Row, TOKENS, hugging, ids, mask, normal

HIDDEN = "last_hidden_state"
WAVE = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=32,
            conv_dim=(16, 16, 16), conv_stride=(5, 4, 4), conv_kernel=(10, 8, 4), num_feat_extract_layers=3,
            num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4)
WHISPER = dict(d_model=32, encoder_layers=2, encoder_attention_heads=2, encoder_ffn_dim=64, num_mel_bins=16,
               max_source_positions=24, max_target_positions=32, decoder_layers=2, decoder_attention_heads=2,
               decoder_ffn_dim=64, vocab_size=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
               decoder_start_token_id=1)


def rows():
    result = {}
    wave = {"input_values": normal("batch", "samples")}
    for name, model, more in (("wav2vec2", "Wav2Vec2ForCTC", {}), ("hubert", "HubertForCTC", {}),
                              ("wav2vec2_stable", "Wav2Vec2ForCTC", dict(feat_extract_norm="layer",
                                                                         do_stable_layer_norm=True)),
                              ("wavlm", "WavLMForCTC", dict(num_buckets=16, max_bucket_distance=32)),
                              ("unispeech", "UniSpeechForCTC", {}), ("unispeech_sat", "UniSpeechSatForCTC", {}),
                              ("sew", "SEWForCTC", {}),
                              ("data2vec_audio", "Data2VecAudioForCTC", {}),
                              ("wav2vec2_conformer", "Wav2Vec2ConformerForCTC",
                               dict(position_embeddings_type="relative", conv_depthwise_kernel_size=7)),
                              ("wav2vec2_rotary", "Wav2Vec2ConformerForCTC",
                               dict(position_embeddings_type="rotary", conv_depthwise_kernel_size=7))):
        result[name] = hugging(model, "logits", {**WAVE, **more}, wave, task="automatic-speech-recognition")
    result["wav2vec2_masked"] = hugging("Wav2Vec2ForCTC", "logits", {**WAVE, "feat_extract_norm": "layer"},
                                        {**wave, "attention_mask": mask("batch", "samples")})
    mel = {"input_features": normal("batch", 16, 48)}
    result["whisper_encoder"] = hugging("WhisperModel", HIDDEN, WHISPER, mel, nested=("encoder",))
    result["whisper"] = hugging("WhisperForConditionalGeneration", "logits", WHISPER, {
        **mel, "decoder_input_ids": ids("batch", "target")}, fixed=dict(use_cache=False),
        task="automatic-speech-recognition")
    result["whisper_decoder"] = hugging("WhisperModel", HIDDEN, WHISPER, {
        "input_ids": ids("batch", "seq"), "encoder_hidden_states": normal("batch", 24, 32)}, nested=("decoder",),
        fixed=dict(use_cache=False), sizes=SHORT)
    result["speech_to_text"] = hugging("Speech2TextForConditionalGeneration", "logits", dict(
        d_model=32, encoder_layers=2, encoder_attention_heads=2, encoder_ffn_dim=64, decoder_layers=2,
        decoder_attention_heads=2, decoder_ffn_dim=64, vocab_size=64, input_feat_per_channel=16, num_conv_layers=2,
        conv_channels=32, max_source_positions=64, max_target_positions=32, pad_token_id=1, bos_token_id=0,
        eos_token_id=2, decoder_start_token_id=2), {
        "input_features": normal("batch", "frames", 16), "attention_mask": mask("batch", "frames"),
        "decoder_input_ids": ids("batch", "target")}, fixed=dict(use_cache=False))
    result["ast"] = hugging("ASTForAudioClassification", "logits", dict(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, patch_size=8,
        frequency_stride=6, time_stride=6, max_length=48, num_mel_bins=16, num_labels=5),
        {"input_values": normal("batch", 48, 16)}, task="audio-classification")
    result["wav2vec2_bert"] = hugging("Wav2Vec2BertForCTC", "logits", dict(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=32,
        feature_projection_input_dim=16, conv_depthwise_kernel_size=7, left_max_position_embeddings=16,
        right_max_position_embeddings=8), {"input_features": normal("batch", "frames", 16),
                                           "attention_mask": mask("batch", "frames")})
    result["encodec"] = hugging("EncodecModel", ("audio_values",), dict(
        num_filters=4, hidden_size=16, num_residual_layers=1, upsampling_ratios=[4, 2], codebook_size=16,
        codebook_dim=16, num_lstm_layers=1, normalize=False, target_bandwidths=[6.0], sampling_rate=1000,
        compress=2), {"input_values": normal("batch", 1, 800)})
    result["dac_decoder"] = hugging("DacModel", (), dict(
        encoder_hidden_size=8, downsampling_ratios=[2, 4], decoder_hidden_size=16, upsampling_ratios=[4, 2],
        n_codebooks=2, codebook_size=16, codebook_dim=4, hidden_size=32), {
        "hidden_state": normal("batch", 32, "frames")}, nested=("decoder",))
    result["moonshine"] = hugging("MoonshineForConditionalGeneration", "logits", dict(
        hidden_size=32, intermediate_size=64, encoder_num_hidden_layers=1, decoder_num_hidden_layers=1,
        encoder_num_attention_heads=2, decoder_num_attention_heads=2, vocab_size=64), {
        "input_values": normal("batch", "samples"), "decoder_input_ids": ids("batch", "target")},
        fixed=dict(use_cache=False))
    result["clap_text"] = hugging("ClapTextModel", HIDDEN, dict(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=64,
        max_position_embeddings=64, pad_token_id=1), TOKENS)
    return result
