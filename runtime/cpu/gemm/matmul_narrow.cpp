// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm/matmul_narrow.h"

#include <algorithm>
#include <map>

#include "runtime/cpu/gemm/dnnl/dnnl_support.h"
#include "runtime/threads/thread_pool.h"

namespace sinter::runtime::cpu {
namespace {

std::int64_t matrices_of(const Product& product) {
  std::int64_t count = 1;
  for (const std::int64_t size : product.batch) count *= size;
  return count;
}

/// Offset of matrix `index` of the batch.
std::int64_t start_of(const GemmOperand& operand, const Product& product, std::int64_t index) {
  std::int64_t start = operand.offset;
  for (std::size_t d = product.batch.size(); d-- > 0; index /= product.batch[d])
    start += index % product.batch[d] * operand.batch_strides[d];
  return start;
}

}  // namespace

MatmulNarrow::MatmulNarrow(const Product& product, const plan::PlanData& plan,
                           const BoundShape& shape, PackedWeights& weights, int threads)
    : a_(product.a), d_(product.d), parts_(matrices_of(product), product.m, product.n) {
  NarrowMatrices right{
      product.b.buffer,     product.b.type,         {}, product.k, product.n, product.k, 0,
      product.b.row_stride, product.b.column_stride};
  std::map<std::int64_t, std::int64_t> known;  // deduplicates matrices that repeat in the batch
  for (std::int64_t i = 0; i < matrices_of(product); ++i) {
    const std::int64_t start = start_of(product.b, product, i);
    const auto [place, is_new] = known.try_emplace(start, std::ssize(right.starts));
    if (is_new) right.starts.push_back(start);
    batch_.push_back(
        {start_of(product.a, product, i), place->second, start_of(product.d, product, i)});
  }
  panels_ = NarrowPanels(right, plan, shape, weights);
  const double multiplications = static_cast<double>(matrices_of(product)) *
                                 static_cast<double>(product.m) * static_cast<double>(product.n) *
                                 static_cast<double>(product.k);
  threads_ = threads_for(multiplications / narrow_rate(DType::kInt8), threads);
}

void MatmulNarrow::execute(std::span<std::byte* const> buffers,
                           std::span<std::byte* const> workspaces) {
  panels_.refresh(buffers, threads_);
  threads::run_parts(parts_.count(), threads_, [&](threads::Member& member) {
    std::byte* workspace = workspaces[static_cast<std::size_t>(member.me())];
    while (const auto index = member.next()) {
      const NarrowParts::Part part = parts_[*index];
      const Matrix& matrix = batch_[static_cast<std::size_t>(part.matrix)];
      const std::byte* x = buffers[a_.buffer] + matrix.a + part.row * a_.row_stride;
      const std::int32_t* sums = panels_.multiply(
          matrix.b, part.first, part.end, part.rows, workspace,
          [&](std::int64_t row, std::int64_t from, std::int64_t to, std::int16_t* target) {
            widen_bytes(a_.type, x + row * a_.row_stride + from * a_.column_stride,
                        a_.column_stride, to - from, target);
          });
      auto* d = reinterpret_cast<std::int32_t*>(buffers[d_.buffer]) + matrix.d +
                part.row * d_.row_stride + part.first * d_.column_stride;
      for (std::int64_t r = 0; r < part.rows; ++r)
        for (std::int64_t c = 0; c < part.end - part.first; ++c)
          d[r * d_.row_stride + c * d_.column_stride] = sums[r * NarrowPanels::kMostColumns + c];
    }
  });
}

}  // namespace sinter::runtime::cpu
