// SPDX-License-Identifier: Apache-2.0
// A decoder of vectors as one of tokens and vectors: what a model that sees is exported as.
#pragma once

#include "ir/graph.h"

namespace sinter::tools {

/// `decoder`, which takes `inputs_embeds` [batch, tokens, width], with these inputs in its place:
/// `input_ids` i64 [batch, tokens], whose vectors `embeddings` (token ids in, vectors out) gives;
/// `given_vectors` [given, width], and `given_rows` i64 [batch, tokens]: for each token the row of
/// given_vectors that takes the place of its own, -1 for none. Throws Error(kUsage) if the two do
/// not fit each other.
ir::Graph with_embeddings(const ir::Graph& decoder, const ir::Graph& embeddings);

}  // namespace sinter::tools
