// SPDX-License-Identifier: Apache-2.0
// Scores of attention as a program: the pointwise operators between its two matmuls.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fusion/context.h"

namespace sinter::fusion {

/// scores = body(factor * product, operands...). Without a body the scores are factor * product. A
/// second output of the body is a sink: the score of one more key, whose value is zero.
struct ScoreProgram {
  const Node* product = nullptr;  // the matmul of queries and keys
  double factor = 1;
  std::shared_ptr<const Graph> body;
  std::vector<ValueId> operands;
  std::vector<const Node*> nodes;  // from the product on, the product included
};

/// The program that computes `value` times `tail`, and reads `sink` if that is valid. `value` is no
/// input of the graph and has the scores' shape. Nothing, with `refusal` where there is something
/// to say, if other operators than pointwise ones compute it.
std::optional<ScoreProgram> score_program(const Graph& graph, ValueId value, double tail,
                                          ValueId sink, std::string& refusal);

/// Adds an Attention with the program of scores of `node`, for `inputs` of other sizes, whose last
/// are the program's operands. Attributes that `attrs` lacks have their defaults. Nothing if the
/// program counts rows, or keys unless it `may_count_keys`: those that a row sees, from 0 on.
std::optional<ValueId> add_attention_of(GraphBuilder& builder, const Node& node,
                                        std::vector<ValueId> inputs, const Attrs& attrs,
                                        bool may_count_keys = false);

}  // namespace sinter::fusion
