// Weights of a plan in the order of its kernels.
#pragma once

#include <array>
#include <map>
#include <set>

#include "codegen/families/gemm/gemm_lowering.h"
#include "codegen/plan/plan_buffers.h"

namespace sinter::codegen {

/// Hashes of the constants of 16 bits that all `graphs`, those of one plan, read as weights of
/// products of few rows alone (regions of kind "gemm"): nothing but kernels of our own reads
/// them, so that a plan may hold them packed. An entry point of more rows or a table of embeddings
/// that is also a product's weights leaves them as they are.
std::set<std::uint64_t> weights_of_few_rows(std::span<const Graph* const> graphs);

class PackedBuffers {
 public:
  /// `elements`: KernelFamily::packed_weights.
  PackedBuffers(PlanBuffers& buffers, std::set<std::uint64_t> elements)
      : buffers_(buffers), elements_(std::move(elements)) {}

  /// True if the product's right operand is a constant of 16 bits that may be packed.
  bool takes_elements(const GemmProgram& product) const;

  /// Puts packed weights, scales and zero points, each packed once, in place of the graph's, if the
  /// product has `weights`. Throws Error(kUnsupported) if they cannot be packed.
  void pack(GemmProgram& product);

  /// Changes what a step reads accordingly: `plain`, the graph's buffers, to `packed`.
  static void replace(std::vector<std::uint32_t>& reads, Buffers plain, Buffers packed);

 private:
  using Key = std::array<std::uint32_t, 3>;
  struct Packed {
    std::uint32_t values = 0, scales = 0, zeros = 0;
    DType type = DType::kFloat32;  // of the scales
    bool zeros_of_four_bits = false;
  };
  Packed make(const GemmProgram& product, const Key& key);

  PlanBuffers& buffers_;
  std::set<std::uint64_t> elements_;
  std::map<std::pair<Key, DType>, Packed> known_;
  // By buffer, rows_are_k and whether x has 8 bits, on which the order depends.
  std::map<std::tuple<std::uint32_t, bool, bool>, std::uint32_t> values_;
};

}  // namespace sinter::codegen
