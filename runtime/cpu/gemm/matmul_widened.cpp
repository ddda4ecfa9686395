// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm/matmul_widened.h"

#include <utility>

#include "runtime/cpu/gemm/dnnl/dnnl_support.h"

namespace sinter::runtime::cpu {

MatmulWidened::MatmulWidened(const Product& product, PackedWeights& weights, int threads)
    : threads_(threads) {
  Product wide = product;
  wide.b_weight = nullptr;
  const auto take = [&](Role role, const GemmOperand& operand, std::int64_t rows,
                        std::int64_t columns) {
    lines_[role].emplace(operand, product.batch, rows, columns, DType::kFloat32);
    return lines_[role]->dense(role);
  };
  wide.a = take(kA, product.a, product.m, product.k);
  wide.b = take(kB, product.b, product.k, product.n);
  wide.d = take(kD, product.d, product.m, product.n);
  if (product.residual) wide.residual = take(kResidual, *product.residual, product.m, product.n);
  if (product.bias) {
    take(kBias,
         {*product.bias, 0, std::vector<std::int64_t>(product.batch.size()), 0, 1, product.d.type},
         1, product.n);
    wide.bias = kBias;
  }
  if (product.b_weight != nullptr) {
    weight_ = copied_weight(*std::exchange(lines_[kB], std::nullopt), product.b_weight, weights);
    copies_[kB] = static_cast<std::byte*>(weight_->memory.get_data_handle());
  }
  for (std::size_t role = 0; role < kRoles; ++role) {
    if (!lines_[role]) continue;
    lines_[role]->reserve();
    copies_[role] = lines_[role]->data();
  }
  parts_ = divide_product(std::move(wide), weights, threads);
}

std::uint64_t MatmulWidened::own_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& lines : lines_)
    if (lines) bytes += lines->own_bytes();
  return bytes;
}

void MatmulWidened::execute(std::span<std::byte* const> buffers,
                            std::span<std::byte* const> workspaces) {
  for (std::size_t role = 0; role < kRoles; ++role)
    if (lines_[role] && role != kD) lines_[role]->copy(buffers, threads_);
  parts_->execute(copies_, workspaces);
  lines_[kD]->copy_back(buffers, threads_);
}

}  // namespace sinter::runtime::cpu
