#include "runtime/cpu/gemm/matmul_widened.h"

#include <cstdlib>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/cpu/gemm/dnnl/dnnl_support.h"
#include "runtime/cpu/ops/element.h"
#include "runtime/threads/thread_pool.h"

namespace sinter::runtime::cpu {

MatmulWidened::Lines MatmulWidened::lines_of(const GemmOperand& operand,
                                             const std::vector<std::int64_t>& batch,
                                             std::int64_t rows, std::int64_t columns) {
  Lines lines{operand.type, operand.buffer, {operand.offset}, 0, 0, 0, 1, {}};
  for (std::size_t d = 0; d < batch.size(); ++d) {
    if (operand.batch_strides[d] == 0) continue;
    std::vector<std::int64_t> starts;
    for (const std::int64_t start : lines.starts)
      for (std::int64_t i = 0; i < batch[d]; ++i)
        starts.push_back(start + i * operand.batch_strides[d]);
    lines.starts = std::move(starts);
  }
  const bool by_rows = std::abs(operand.column_stride) <= std::abs(operand.row_stride) || rows == 1;
  lines.count = by_rows ? rows : columns;
  lines.length = by_rows ? columns : rows;
  lines.pitch = by_rows ? operand.row_stride : operand.column_stride;
  lines.step = by_rows ? operand.column_stride : operand.row_stride;
  return lines;
}

GemmOperand MatmulWidened::dense(const GemmOperand& operand, const std::vector<std::int64_t>& batch,
                                 const Lines& lines, Role role) {
  GemmOperand result{role, 0, operand.batch_strides, 0, 0, DType::kFloat32};
  std::int64_t stride = lines.count * lines.length;
  for (std::size_t d = batch.size(); d-- > 0;) {
    if (operand.batch_strides[d] == 0) continue;
    result.batch_strides[d] = stride;
    stride *= batch[d];
  }
  const bool by_rows = lines.pitch == operand.row_stride && lines.step == operand.column_stride;
  result.row_stride = by_rows ? lines.length : 1;
  result.column_stride = by_rows ? 1 : lines.length;
  return result;
}

MatmulWidened::MatmulWidened(const Product& product, PackedWeights& weights, int threads)
    : threads_(threads) {
  Product wide = product;
  wide.b_weight = nullptr;
  const auto take = [&](Role role, const GemmOperand& operand, std::int64_t rows,
                        std::int64_t columns) {
    lines_[role] = lines_of(operand, product.batch, rows, columns);
    return dense(operand, product.batch, *lines_[role], role);
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
    const auto own = std::make_shared<Lines>(std::move(*lines_[kB]));
    lines_[kB].reset();
    // Lines begin where the buffer does; the copy outlives the plan's section.
    const std::ptrdiff_t place = weights.place_of(product.b_weight);
    weight_ = copied(
        weights, own->buffer,
        fmt::format("float32 of {}, {} lines of {} elements {} apart, {} apart",
                    fmt::join(own->starts, " "), own->count, own->length, own->step, own->pitch),
        bytes_of(own->elements()), [own, place](const std::byte* section, std::byte* to) {
          const std::int64_t lines = std::ssize(own->starts) * own->count;
          for (std::int64_t line = 0; line < lines; ++line)
            convert_line(*own, const_cast<std::byte*>(section) + place,
                         reinterpret_cast<float*>(to), line, true);
        });
    copies_[kB] = static_cast<std::byte*>(weight_->memory.get_data_handle());
  }
  for (std::size_t role = 0; role < kRoles; ++role) {
    if (!lines_[role]) continue;
    lines_[role]->copy.reserve(bytes_of(lines_[role]->elements()), "an operand as float32");
    copies_[role] = lines_[role]->copy.data();
  }
  parts_ = divide_product(std::move(wide), weights, threads);
}

std::uint64_t MatmulWidened::own_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& lines : lines_)
    if (lines) bytes += lines->copy.capacity();
  return bytes;
}

void MatmulWidened::convert_line(const Lines& lines, std::byte* base, float* copy,
                                 std::int64_t line, bool widens) {
  const std::int64_t start =
      lines.starts[static_cast<std::size_t>(line / lines.count)] + line % lines.count * lines.pitch;
  std::byte* place = base + start * static_cast<std::int64_t>(size_of(lines.type));
  copy += line * lines.length;
  if (widens)
    load_floats(lines.type, place, lines.step, lines.length, copy);
  else
    store_floats(lines.type, copy, place, lines.step, lines.length);
}

void MatmulWidened::convert(Lines& lines, std::span<std::byte* const> buffers, bool widens) {
  constexpr std::int64_t kElementsOfPart = 1 << 14;
  const std::int64_t count = std::ssize(lines.starts) * lines.count;
  const std::int64_t of_part = std::max<std::int64_t>(1, kElementsOfPart / lines.length);
  auto* copy = reinterpret_cast<float*>(lines.copy.data());
  threads::run_parts((count + of_part - 1) / of_part, threads_, [&](threads::Member& member) {
    while (const auto part = member.next())
      for (std::int64_t line = *part * of_part; line < std::min(count, (*part + 1) * of_part);
           ++line)
        convert_line(lines, buffers[lines.buffer], copy, line, widens);
  });
}

void MatmulWidened::execute(std::span<std::byte* const> buffers,
                            std::span<std::byte* const> workspaces) {
  for (std::size_t role = 0; role < kRoles; ++role)
    if (lines_[role] && role != kD) convert(*lines_[role], buffers, true);
  parts_->execute(copies_, workspaces);
  convert(*lines_[kD], buffers, false);
}

}  // namespace sinter::runtime::cpu
