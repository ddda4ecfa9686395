// SPDX-License-Identifier: Apache-2.0
// Regions of kind "gemm" as graphs of plain operators.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "codegen/program/describe.h"
#include "ir/mixture/expert_rows.h"

namespace sinter::codegen {

/// The nodes of a region of kind "gemm": a Fused node of kind "matmul", "grouped_matmul" or "conv",
/// maybe a prologue that computes or gathers the left operand's rows, and maybe an epilogue of
/// another kind. The values between them may be reshaped.
struct GemmBody {
  const Node* prologue = nullptr;  // null: the left operand is in memory
  const Node* matmul = nullptr;    // or the convolution
  const Node* epilogue = nullptr;  // null: none
  bool is_conv = false;
};
/// Throws Error(kInternal) if the body is not of that form.
GemmBody gemm_body(const Graph& body);

/// A body of kind "gemm" with only `node`, of kind "matmul" or "conv"; for a node of kind "gemm",
/// its own body.
std::shared_ptr<const Graph> as_gemm_body(const Node& node);

/// The MatMul or Conv of a body of kind "matmul" or "conv".
const Node& gemm_node(const Graph& part);

/// Only the MatMul, with the views of its operands.
Graph bare_product(const Graph& part);

/// Creates the replacement of the MatMul (or of the Conv without its bias); `operands` are the
/// node's two.
using MakeProduct =
    std::function<ir::ValueId(GraphBuilder& builder, std::span<const ValueId> operands)>;

/// `body` without the nodes that wrap its parts and without the prologue, over its own inputs and
/// outputs. Without `with_epilogue`, the output is that of the matmul or convolution. Without
/// `make`, the product is an additional first input.
Graph inline_product(const Graph& body, const GemmBody& nodes, bool with_epilogue,
                     const MakeProduct& make);

/// How the epilogue of a grouped matmul adds up the rows of each token; values are of its body.
std::optional<ir::CombinedRows> combined_rows(const Graph& body, const GemmBody& nodes);
/// What follows the sum, an additional first input f32 [tokens, columns], over inputs and outputs
/// of `body`.
Graph inline_combination(const Graph& body, const GemmBody& nodes, const ir::CombinedRows& rows);

}  // namespace sinter::codegen
