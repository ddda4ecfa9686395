// SPDX-License-Identifier: Apache-2.0
// Weights of a plan in the packed order of its kernels.
#pragma once

#include <array>
#include <map>
#include <set>

#include "codegen/families/gemm/gemm_lowering.h"
#include "codegen/plan/plan_buffers.h"

namespace sinter::codegen {

/// Hashes of the 16-bit constants that all `graphs` of a plan read only as weights of small-M
/// GEMMs (regions of kind "gemm"). Only our kernels read them, so that the plan may store them
/// packed. An entry point of more rows, or an embedding table that is also a GEMM's weights,
/// prevents that.
std::set<std::uint64_t> weights_of_few_rows(std::span<const Graph* const> graphs);

class PackedBuffers {
 public:
  /// `elements`: KernelFamily::packed_weights.
  PackedBuffers(PlanBuffers& buffers, std::set<std::uint64_t> elements)
      : buffers_(buffers), elements_(std::move(elements)) {}

  /// True if the GEMM's right operand is a 16-bit constant that may be packed.
  bool takes_elements(const GemmProgram& product) const;

  /// If the GEMM has `weights`: replaces the graph's by packed weights, scales and zero points or
  /// factors, each packed once. Throws Error(kUnsupported) if they cannot be packed.
  void pack(GemmProgram& product);

  /// Replaces the graph's buffers `plain` by `packed` in what a step reads.
  static void replace(std::vector<std::uint32_t>& reads, Buffers plain, Buffers packed);

 private:
  using Key = std::array<std::uint32_t, 3>;
  struct Packed {
    std::uint32_t values = 0, scales = 0, zeros = 0, factors = ~std::uint32_t{0};
    DType type = DType::kFloat32;  // of the scales
    bool zeros_of_four_bits = false;
  };
  Packed make(const GemmProgram& product, const Key& key);

  PlanBuffers& buffers_;
  std::set<std::uint64_t> elements_;
  std::map<std::pair<Key, DType>, Packed> known_;
  // By what determines the order: buffer, rows_are_k, and whether x has 8 bits.
  std::map<std::tuple<std::uint32_t, bool, bool>, std::uint32_t> values_;
};

}  // namespace sinter::codegen
