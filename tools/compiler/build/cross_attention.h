// SPDX-License-Identifier: Apache-2.0
// An encoder with what a decoder makes of its output once: keys and values of cross-attention.
#pragma once

#include "frontend/import.h"

namespace sinter::tools {

/// `encoder` with outputs for those inputs of `decoder` (Optimum's merged decoder) that its first
/// step computes of the encoder's outputs alone: past_key_values.X is computed as present.X. Throws
/// Error(kUsage) if there are none, or the two do not fit each other.
ir::Graph with_cross_attention(const ir::Graph& encoder, const frontend::ImportedModel& decoder);

}  // namespace sinter::tools
