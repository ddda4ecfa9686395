// SPDX-License-Identifier: Apache-2.0
// The graph of an encoder of texts, of the operators that the ONNX importer makes.
#pragma once

#include <memory>

#include "frontend/decoders/config/encoder_config.h"
#include "frontend/decoders/files/tensor_file.h"
#include "ir/constants/recipe.h"
#include "ir/graph.h"

namespace sinter::frontend {

/// Inputs: input_ids, attention_mask and, of models with several types, token_type_ids [batch,
/// sequence]. Output: logits [batch, labels] of a model with a head, else last_hidden_state [batch,
/// sequence, hidden]. `reads` as in ImportOptions. Throws Error(kUnsupported) that names tensors
/// which are missing, of another shape, or not known.
ir::Graph encoder_graph(const EncoderRow& row, const EncoderConfig& config,
                        std::shared_ptr<const TensorFile> file, std::shared_ptr<ir::ReadLog> reads);

}  // namespace sinter::frontend
