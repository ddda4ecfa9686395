#include "codegen/families/gemm/weights/packed_weights.h"

#include <fmt/format.h>

#include "codegen/emit/arguments.h"
#include "codegen/families/gemm/weights/weight_pack.h"

namespace sinter::codegen {

bool can_pack_weights(const GemmProgram& product, std::string& reason) {
  if (product.windows) {
    reason = "its rows are windows";
    return false;
  }
  if (product.parts > 1) {
    const auto columns = ir::divide_exactly(product.n, ir::Dim(product.parts));
    if (product.weights && columns->value() % kPackedColumns != 0) {
      reason = fmt::format("its parts are no multiples of {} columns", kPackedColumns);
      return false;
    }
  }
  if (!product.weights) return true;
  reason = refuse_groups(product.weights->group, product.k.value());
  return reason.empty();
}

std::int64_t loop_group(const GemmProgram& product) {
  // Groups of all of k where zero points make them groups: above any k.
  constexpr std::int64_t kWholeGroup = std::int64_t{1} << 30;
  if (!product.weights) return 0;
  if (product.weights->group != 0) return product.weights->group;
  return product.weights->zeros ? kWholeGroup : 0;
}

std::string packed_weights_type(const GemmWeights& weights, std::int64_t group) {
  if (!weights.is_quantized()) return "PackedElements, NoScales";
  return fmt::format("{}, Scales<{}, {}{}>", weights.bits == 8 ? "PackedBytes" : "PackedNibbles",
                     storage_name(weights.scales), group, weights.zeros ? ", true" : "");
}

}  // namespace sinter::codegen
