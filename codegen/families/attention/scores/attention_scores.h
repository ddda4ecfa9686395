// SPDX-License-Identifier: Apache-2.0
// Scores of attention as a loop program: from the node's body to the plan's form, and to CUDA.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/emit/kernel_request.h"
#include "codegen/families/attention/attention_program.h"
#include "codegen/program/index_space.h"

namespace sinter::codegen {

class AttentionParameters;

/// The program of the body of `attention`, a node of `body`, over the loops of `space`: those of
/// the scores. `inputs` are the plan's buffers of the inputs of `body`. `wanted`: as for
/// lower_over_loops().
LoopProgramT lower_scores(const Graph& body, const Node& attention, Buffers inputs,
                          ExprTable& exprs, const LoopSpace& space,
                          std::optional<SplitRequest>& wanted);

/// Whether the program depends on the index of loop `loop`.
bool reads_loop(const LoopProgramT& scores, const ExprTable& exprs, std::size_t loop);

/// The same program over other loops, of which index l of its old ones is a linear form:
/// `indices[l]` over a batch loop for each of `extents` but the last two, which are rows and keys.
LoopProgramT with_loops(const LoopProgramT& scores, std::span<const AttentionOperand> indices,
                        std::span<const Dim> extents, ExprTable& exprs);

/// A score's program as a class of the kernel. Scores are `behind` times what it makes of q k'
/// times `front`.
struct ScoreText {
  std::string declaration;  // "struct NAME_Score { .. };"
  std::string value;        // "{x3, n0, i32(b0)}", in the function that makes a problem
  double front = 1, behind = 1;
};
ScoreText score_text(const AttentionProgram& attention, const std::string& name,
                     AttentionParameters& args, const KernelRequest& facts, ExprTable& exprs);

}  // namespace sinter::codegen
