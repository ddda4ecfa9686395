// Quantised weights of a plan in the order of its kernels.
#pragma once

#include <array>
#include <map>

#include "codegen/lowering/product_lowering.h"
#include "codegen/plan_buffers.h"

namespace sinter::codegen {

class PackedBuffers {
 public:
  explicit PackedBuffers(PlanBuffers& buffers) : buffers_(buffers) {}

  /// Puts packed weights, scales and zero points, each packed once, in place of the graph's;
  /// nothing if the product has none. Throws Error(kUnsupported) if they cannot be packed.
  void pack(ProductProgram& product);

  /// Changes what a step reads accordingly: `plain`, the graph's buffers, to `packed`.
  static void replace(std::vector<std::uint32_t>& reads, std::span<const std::uint32_t> plain,
                      std::span<const std::uint32_t> packed);

 private:
  using Key = std::array<std::uint32_t, 3>;
  struct Packed {
    std::uint32_t values = 0, scales = 0, zeros = 0;
    DType type = DType::kFloat32;  // of the scales
  };
  Packed make(const ProductProgram& product, const Key& key);

  PlanBuffers& buffers_;
  std::map<std::pair<Key, DType>, Packed> known_;
};

}  // namespace sinter::codegen
