// SPDX-License-Identifier: Apache-2.0
// A transducer of speech (RNN-T, TDT) as one graph: spectra, the encoder, and the greedy loop over
// its frames.
#pragma once

#include <span>
#include <string>
#include <utility>

#include <sinter/compile_options.h>

#include "ir/graph.h"

namespace sinter::tools {

/// Whether a graph with these inputs is a transducer's prediction network, whose joint network is
/// in it (NeMo's decoder_joint) or in a file of its own (sherpa-onnx's joiner).
bool is_prediction_network(const ir::Graph& inputs);
bool has_joint_network(const ir::Graph& inputs);
/// Of the file `decoder` that has none: that beside it with "joiner" in place of "decoder".
std::string joiner_beside(const std::string& decoder);

/// Least and greatest shapes of an encoder's inputs: one sound of up to two minutes. Throws
/// Error(kUsage) for inputs that are not `audio_signal` f32 [batch, bands, frames] and `length`
/// i64 [batch].
std::pair<Shapes, Shapes> shapes_of_sound(const ir::Graph& inputs);
/// Shapes of a network's inputs for one token of one text.
Shapes shapes_of_a_token(const ir::Graph& inputs);

/// `encoder` (as shapes_of_sound() says) and `networks`, the prediction and the joint network or
/// one of both, as a graph of these inputs:
///   audio    f32 [1, 160 * frames], sound at 16 kHz, zeros behind its end
///   samples  i64 [], of the sound, frames = samples / 160 + 1
///   blank    i64 [], the token for "nothing", behind all others; durations of tokens follow it
/// and outputs: tokens and the encoder's frames in which they are spoken, i64 [n], of which the
/// first `count` (i64 []) are meant, `encoded` (i64 []), how many frames the encoder has, and
/// `choices` (i64 []), the number of logits: blank is below it.
/// Throws Error(kUsage) for networks that do not fit each other.
ir::Graph with_transducer(const ir::Graph& encoder, std::span<const ir::Graph> networks);

}  // namespace sinter::tools
