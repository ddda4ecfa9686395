// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm/operand_lines.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/cpu/gemm/dnnl/dnnl_support.h"
#include "runtime/cpu/ops/element.h"
#include "runtime/threads/thread_pool.h"

namespace sinter::runtime::cpu {
namespace {

template <typename T>
void gather(const std::byte* from, std::int64_t step, std::int64_t count, std::byte* to) {
  const auto* source = reinterpret_cast<const T*>(from);
  auto* target = reinterpret_cast<T*>(to);
  for (std::int64_t i = 0; i < count; ++i) target[i] = source[i * step];
}

/// Copies `count` elements of `size` bytes with stride `step`.
void gather(std::size_t size, const std::byte* from, std::int64_t step, std::int64_t count,
            std::byte* to) {
  if (step == 1)
    std::memcpy(to, from, static_cast<std::size_t>(count) * size);
  else if (size == 1)
    gather<std::uint8_t>(from, step, count, to);
  else if (size == 2)
    gather<std::uint16_t>(from, step, count, to);
  else
    gather<std::uint32_t>(from, step, count, to);
}

}  // namespace

OperandLines::OperandLines(const GemmOperand& operand, const std::vector<std::int64_t>& batch,
                           std::int64_t rows, std::int64_t columns, DType copied_as)
    : operand_(operand),
      batch_(batch),
      copied_as_(copied_as),
      by_rows_(std::abs(operand.column_stride) <= std::abs(operand.row_stride) || rows == 1),
      starts_{operand.offset},
      lines_(by_rows_ ? rows : columns),
      length_(by_rows_ ? columns : rows),
      pitch_(by_rows_ ? operand.row_stride : operand.column_stride),
      step_(by_rows_ ? operand.column_stride : operand.row_stride) {
  for (std::size_t d = 0; d < batch.size(); ++d) {
    if (operand.batch_strides[d] == 0) continue;
    std::vector<std::int64_t> starts;
    for (const std::int64_t start : starts_)
      for (std::int64_t i = 0; i < batch[d]; ++i)
        starts.push_back(start + i * operand.batch_strides[d]);
    starts_ = std::move(starts);
  }
}

GemmOperand OperandLines::dense(std::uint32_t buffer) const {
  GemmOperand result{buffer, 0, operand_.batch_strides, 0, 0, copied_as_};
  std::int64_t stride = lines_ * length_;
  for (std::size_t d = batch_.size(); d-- > 0;) {
    if (operand_.batch_strides[d] == 0) continue;
    result.batch_strides[d] = stride;
    stride *= batch_[d];
  }
  result.row_stride = by_rows_ ? length_ : 1;
  result.column_stride = by_rows_ ? 1 : length_;
  return result;
}

std::int64_t OperandLines::count() const { return std::ssize(starts_) * lines_; }

std::size_t OperandLines::bytes() const { return bytes_of(count() * length_, copied_as_); }

std::string OperandLines::layout() const {
  return fmt::format("{} of {}, {} lines of {} elements {} apart, {} apart", to_string(copied_as_),
                     fmt::join(starts_, " "), lines_, length_, step_, pitch_);
}

void OperandLines::reserve() { copy_.reserve(bytes(), "a dense copy of an operand"); }

OperandLines::Line OperandLines::line(std::int64_t index) const {
  const std::int64_t start =
      starts_[static_cast<std::size_t>(index / lines_)] + index % lines_ * pitch_;
  return {start * static_cast<std::int64_t>(size_of(operand_.type)),
          bytes_of(index * length_, copied_as_)};
}

template <typename Move>
void OperandLines::each_line(int threads, const Move& move) const {
  constexpr std::int64_t kElementsOfPart = 1 << 14;
  constexpr double kElementsPerNanosecond = 2;
  const std::int64_t all = count();
  const std::int64_t of_part = std::max<std::int64_t>(1, kElementsOfPart / length_);
  const int team =
      threads::team_for(static_cast<double>(all * length_) / kElementsPerNanosecond, threads);
  threads::run_parts((all + of_part - 1) / of_part, team, [&](threads::Member& member) {
    while (const auto part = member.next())
      for (std::int64_t i = *part * of_part; i < std::min(all, (*part + 1) * of_part); ++i)
        move(line(i));
  });
}

void OperandLines::copy_line(const Line& at, const std::byte* base, std::byte* to) const {
  to += at.copy_begin;
  if (copied_as_ == operand_.type)
    gather(size_of(operand_.type), base + at.begin, step_, length_, to);
  else
    load_floats(operand_.type, base + at.begin, step_, length_, reinterpret_cast<float*>(to));
}

void OperandLines::copy_from(const std::byte* base, std::byte* to) const {
  for (std::int64_t i = 0; i < count(); ++i) copy_line(line(i), base, to);
}

void OperandLines::copy(std::span<std::byte* const> buffers, int threads) {
  const std::byte* base = buffers[operand_.buffer];
  each_line(threads, [&](const Line& at) { copy_line(at, base, copy_.data()); });
}

void OperandLines::copy_back(std::span<std::byte* const> buffers, int threads) {
  std::byte* base = buffers[operand_.buffer];
  each_line(threads, [&](const Line& at) {
    store_floats(operand_.type, reinterpret_cast<const float*>(copy_.data() + at.copy_begin),
                 base + at.begin, step_, length_);
  });
}

std::shared_ptr<const PackedWeights::Entry> copied_weight(OperandLines lines, const std::byte* data,
                                                          PackedWeights& weights) {
  // Lines start at the buffer's offset. The lambda must not refer to the plan's section, which it
  // may outlive.
  const std::ptrdiff_t place = weights.place_of(data);
  const auto own = std::make_shared<const OperandLines>(std::move(lines));
  return copied(weights, own->buffer(), own->layout(), own->bytes(),
                [own, place](const std::byte* section, std::byte* to) {
                  own->copy_from(section + place, to);
                });
}

CopiedOperands::CopiedOperands(Product& product, std::size_t plan_buffers, PackedWeights& weights)
    : plan_buffers_(plan_buffers) {
  const auto add = [&](GemmOperand& operand, std::int64_t rows, std::int64_t columns,
                       const std::byte* weight) {
    if (is_taken(operand, product.batch, rows, columns)) return kept_.push_back(operand.buffer);
    OperandLines lines(operand, product.batch, rows, columns, operand.type);
    operand = lines.dense(static_cast<std::uint32_t>(plan_buffers + addresses_.size()));
    if (weight != nullptr) {
      weight_ = copied_weight(std::move(lines), weight, weights);
      addresses_.push_back(static_cast<std::byte*>(weight_->memory.get_data_handle()));
      return;
    }
    lines.reserve();
    addresses_.push_back(lines.data());
    lines_.push_back(std::move(lines));
  };
  add(product.a, product.m, product.k, nullptr);
  add(product.b, product.k, product.n, product.b_weight);
  if (none()) return;
  if (weight_) product.b_weight = nullptr;  // oneDNN reads the copy without packing
  addresses_.insert(addresses_.begin(), plan_buffers, nullptr);
  kept_.push_back(product.d.buffer);
  if (product.residual) kept_.push_back(product.residual->buffer);
  if (product.bias) kept_.push_back(*product.bias);
}

std::uint64_t CopiedOperands::own_bytes() const {
  std::uint64_t bytes = 0;
  for (const OperandLines& lines : lines_) bytes += lines.own_bytes();
  return bytes;
}

std::span<std::byte* const> CopiedOperands::copy(std::span<std::byte* const> buffers, int threads) {
  for (OperandLines& lines : lines_) lines.copy(buffers, threads);
  for (const std::uint32_t buffer : kept_) addresses_[buffer] = buffers[buffer];
  return addresses_;
}

}  // namespace sinter::runtime::cpu
