// Regions of kind "gemm" as graphs of plain operators.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "codegen/program/describe.h"

namespace sinter::codegen {

/// The nodes of a region of kind "gemm": a Fused node of kind "matmul" or "conv", maybe one
/// that makes the left operand's rows, and maybe one of another family that reads the result; any
/// of the values between them perhaps reshaped.
struct GemmBody {
  const Node* rows = nullptr;    // null: the left operand is in memory
  const Node* matmul = nullptr;  // or the convolution
  const Node* rest = nullptr;    // null: the product is all
  bool is_conv = false;
};
/// Throws Error(kInternal) if the body is not of that form.
GemmBody gemm_body(const Graph& body);

/// The body of a region of kind "gemm" that holds nothing but `node`, of kind "matmul" or
/// "conv"; a node of kind "gemm" has its own.
std::shared_ptr<const Graph> as_gemm_body(const Node& node);

/// The MatMul, QuantMatMul or Conv of a body of kind "matmul" or "conv".
const Node& gemm_node(const Graph& part);

/// The MatMul alone, with its operands' views.
Graph bare_product(const Graph& part);

/// What stands for the MatMul (or for the Conv without its bias); `operands` are the node's two.
using MakeProduct =
    std::function<ir::ValueId(GraphBuilder& builder, std::span<const ValueId> operands)>;

/// `body` without the nodes that wrap its parts and without what makes the left operand's rows,
/// over its own inputs and outputs; without `with_epilogue` the output is the matmul's or
/// convolution's. Without `make` the product is an input in front of the others.
Graph inline_product(const Graph& body, const GemmBody& nodes, bool with_epilogue,
                     const MakeProduct& make);

}  // namespace sinter::codegen
