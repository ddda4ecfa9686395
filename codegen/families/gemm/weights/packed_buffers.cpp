// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/gemm/weights/packed_buffers.h"

#include <algorithm>

#include <sinter/error.h>

#include "codegen/families/gemm/gemm_graph.h"
#include "codegen/families/gemm/small_m/small_m_schedule.h"
#include "codegen/families/gemm/weights/weight_pack.h"
#include "ir/scale_format.h"

namespace sinter::codegen {
namespace {

constexpr std::uint32_t kNone = ~std::uint32_t{0};

bool has_16_bits(DType type) { return type == DType::kFloat16 || type == DType::kBFloat16; }

/// The input of a region of kind "gemm" that is only the weights of its GEMM, if that has few
/// rows.
std::optional<std::size_t> weights_input(const Node& region, const Ranges& ranges) {
  if (region.op->kind != OpKind::kFused || region.attrs.get_string("kind") != "gemm")
    return std::nullopt;
  const Graph& body = *region.body;
  const GemmBody nodes = gemm_body(body);
  const Graph& part = *nodes.matmul->body;
  const Node& product = gemm_node(part);
  if (!ir::is_plain_matmul(product)) return std::nullopt;
  Shape rows = part.type(product.outputs[0]).shape;
  rows.pop_back();
  const auto most = ir::upper_bound(ir::element_count(rows), ranges);
  if (!most || *most > kFewRows) return std::nullopt;
  ValueId operand = product.inputs[1];
  while (const Node* view = part.producer(operand)) {
    if (view->op->kind != OpKind::kView || view->inputs.size() != 1) return std::nullopt;
    operand = view->inputs[0];
  }
  for (std::size_t i = 0; i < part.inputs().size(); ++i) {
    if (part.inputs()[i] != operand || part.users(operand).size() != 1) continue;
    const ValueId own = nodes.matmul->inputs[i];
    return body.users(own).size() == 1 ? body.input_number(own) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::set<std::uint64_t> weights_of_few_rows(std::span<const Graph* const> graphs) {
  std::set<std::uint64_t> packed, others;
  for (const Graph* graph : graphs) {
    for (const Node& node : graph->nodes()) {
      const auto weights = weights_input(node, graph->ranges());
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const auto& constant = graph->value(node.inputs[i]).constant;
        if (constant && constant->shape().size() == 2 && has_16_bits(constant->dtype()))
          (weights == i ? packed : others).insert(constant->hash());
      }
    }
    for (const ValueId output : graph->outputs())
      if (const auto& constant = graph->value(output).constant) others.insert(constant->hash());
  }
  for (const std::uint64_t hash : others) packed.erase(hash);
  return packed;
}

bool PackedBuffers::takes_elements(const GemmProgram& product) const {
  const std::uint32_t buffer = product.program.buffers[product.b_buffer()];
  const auto constant = buffers_.constant_of(buffer);
  if (!constant || !has_16_bits(constant->dtype()) || !elements_.contains(constant->hash()))
    return false;
  const Dim rows = constant->shape()[0], columns = constant->shape()[1];
  return !product.windows && !product.weights && product.batch.empty() &&
         product.b.offset == ir::Dim(0) && product.b.stride == columns &&
         (product.rows_are_k ? product.k == rows && product.n == columns
                             : product.n == rows && product.k == columns);
}

PackedBuffers::Packed PackedBuffers::make(const GemmProgram& product, const Key& key) {
  const auto tensor = [&](std::uint32_t buffer) -> const Tensor& {
    const auto constant = buffers_.constant_of(buffer);
    if (!constant)
      throw Error(ErrorCode::kUnsupported,
                  "the packed weights of a product are computed, not constants");
    return *constant;
  };
  // The rows of all groups' matrices as those of one.
  const auto matrix = [&](std::uint32_t buffer) {
    const Tensor& all = tensor(buffer);
    if (product.groups == 0) return all;
    return all.reshaped({all.shape()[0] * all.shape()[1], all.shape()[2]});
  };
  const auto add = [&](const Tensor& part) {
    return buffers_.constant(std::make_shared<const Tensor>(part));
  };
  const auto add_values = [&](const Tensor& values) {
    const auto [at, added] =
        values_.try_emplace({key[0], product.rows_are_k, product.is_eight_bit()});
    if (added) at->second = buffers_.made_constant(std::make_shared<const Tensor>(values));
    return at->second;
  };
  if (!product.weights->is_quantized())
    return {add_values(pack_elements(tensor(key[0]), product.rows_are_k)), kNone, kNone};
  ir::ScaledTensor weights{
      *product.weights->format, product.k.value(), matrix(key[0]), matrix(key[1]), {}};
  if (key[2] != kNone)
    (product.weights->has_zeros() ? weights.zero_points : weights.factors) = matrix(key[2]);
  const PackedWeights packed = pack_weights(weights, product.type);
  return {add_values(packed.values),
          add(packed.scales),
          packed.zeros ? add(*packed.zeros) : kNone,
          packed.factors ? add(*packed.factors) : kNone,
          packed.scales.dtype(),
          packed.zeros_of_four_bits};
}

void PackedBuffers::pack(GemmProgram& product) {
  if (!product.weights) return;
  auto& buffers = product.program.buffers;
  const bool is_quantized = product.weights->is_quantized();
  const bool has_more = is_quantized && product.first_operand() != product.scales_buffer();
  const Key key = {buffers[product.b_buffer()],
                   is_quantized ? buffers[product.scales_buffer()] : kNone,
                   has_more ? buffers[product.zeros_buffer()] : kNone};
  const auto [at, added] = known_.try_emplace({key, product.type});
  if (added) at->second = make(product, key);
  const Packed& packed = at->second;
  product.weights->zeros_of_four_bits = packed.zeros_of_four_bits;
  product.rows_are_k = false;
  buffers[product.b_buffer()] = packed.values;
  if (!is_quantized) return;
  buffers[product.scales_buffer()] = packed.scales;
  if (product.weights->has_zeros()) buffers[product.zeros_buffer()] = packed.zeros;
  ir::ScaleFormat& format = *product.weights->format;
  format.scale = packed.type;
  if (format.has_factors) buffers.erase(buffers.begin() + product.factors_buffer());
  format.has_factors = packed.factors != kNone;
  if (format.has_factors) buffers.insert(buffers.begin() + product.scales_buffer(), packed.factors);
}

void PackedBuffers::replace(std::vector<std::uint32_t>& reads, Buffers plain, Buffers packed) {
  std::erase_if(
      reads, [&](std::uint32_t buffer) { return std::ranges::find(plain, buffer) != plain.end(); });
  for (const std::uint32_t buffer : packed)
    if (std::ranges::find(reads, buffer) == reads.end()) reads.push_back(buffer);
}

}  // namespace sinter::codegen
