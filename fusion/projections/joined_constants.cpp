// SPDX-License-Identifier: Apache-2.0
// Joined constants of several matmuls, by registered name (fusion/transforms.h).
#include <algorithm>
#include <cstring>
#include <numeric>

#include "fusion/regions/constant_values.h"
#include "fusion/transforms.h"

namespace sinter::fusion {
namespace {

/// Whether `inputs`, of one type, have sizes[i] along `axis` for each present i.
bool are_parts(const Ints& sizes, const Ints& present, std::span<const Tensor> inputs,
               std::size_t rank, std::size_t axis = 0) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (present[i] == 0) continue;
    if (next == inputs.size() || inputs[next].shape().size() != rank ||
        inputs[next].dtype() != inputs[0].dtype() || inputs[next].shape()[axis] != sizes[i])
      return false;
    ++next;
  }
  return next == inputs.size();
}

}  // namespace

const ir::Derivation kJoinedColumns = {
    "joined_columns",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const Ints& transposed = attrs.get_ints("transposed");
      if (inputs.empty() || !ir::has_inputs(inputs, transposed.size(), 2)) return false;
      const auto rows = [&](std::size_t i) {
        return inputs[i].shape()[transposed[i] != 0 ? 1 : 0];
      };
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (inputs[i].dtype() != inputs[0].dtype() || rows(i) != rows(0)) return false;
      return true;
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const Ints& transposed = attrs.get_ints("transposed");
      std::int64_t columns = 0;
      for (std::size_t i = 0; i < inputs.size(); ++i)
        columns += inputs[i].shape()[transposed[i] != 0 ? 0 : 1];
      return std::pair(inputs[0].dtype(),
                       Ints{inputs[0].shape()[transposed[0] != 0 ? 1 : 0], columns});
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const auto [type, shape] = kJoinedColumns.type(attrs, inputs);
      const std::size_t size = size_of(type);
      const auto rows = static_cast<std::size_t>(shape[0]),
                 pitch = static_cast<std::size_t>(shape[1]);
      const Ints& transposed = attrs.get_ints("transposed");
      std::vector<std::byte> bytes(rows * pitch * size);
      std::byte* to = bytes.data();
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const ir::HeldBytes from = inputs[i].hold();
        const bool is_transposed = transposed[i] != 0;
        const auto columns = static_cast<std::size_t>(inputs[i].shape()[is_transposed ? 0 : 1]);
        const std::size_t width = columns * size;
        if (is_transposed)
          write_transposed(from.bytes, columns, rows, size, to, pitch);
        else
          for (std::size_t row = 0; row < rows; ++row)
            std::memcpy(to + row * pitch * size, from.bytes.data() + row * width, width);
        to += width;
      }
      return bytes;
    }};

const ir::Derivation kJoinedRows = {
    "joined_rows",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      if (!ir::has_counts(attrs, {"rows", "present"}) || inputs.empty()) return false;
      const Ints& first = inputs[0].shape();
      const std::size_t rank = first.size();
      if (rank < 2 || rank > 3 ||
          !are_parts(attrs.get_ints("rows"), attrs.get_ints("present"), inputs, rank, rank - 2))
        return false;
      return std::ranges::all_of(inputs, [&](const Tensor& input) {
        return input.shape().back() == first.back() && (rank == 2 || input.shape()[0] == first[0]);
      });
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      Ints shape = inputs[0].shape();
      std::int64_t& rows = shape[shape.size() - 2] = 0;
      for (const std::int64_t count : attrs.get_ints("rows")) rows += count;
      return std::pair(inputs[0].dtype(), std::move(shape));
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const Ints& rows = attrs.get_ints("rows");
      const Ints& present = attrs.get_ints("present");
      const Ints& first = inputs[0].shape();
      const std::size_t pitch = static_cast<std::size_t>(first.back()) * size_of(inputs[0].dtype());
      const auto matrices = static_cast<std::size_t>(first.size() == 3 ? first[0] : 1);
      std::size_t size = 0;  // of a joined matrix
      for (const std::int64_t count : rows) size += static_cast<std::size_t>(count) * pitch;
      std::vector<std::byte> bytes(matrices * size);
      std::size_t next = 0, at = 0;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::size_t part = static_cast<std::size_t>(rows[i]) * pitch;
        if (present[i] != 0) {
          const ir::HeldBytes from = inputs[next++].hold();
          for (std::size_t m = 0; m < matrices && part > 0; ++m)
            std::memcpy(bytes.data() + m * size + at, from.bytes.data() + m * part, part);
        }
        at += part;
      }
      return bytes;
    }};

const ir::Transform kJoinedBiases = {
    "joined_biases",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      if (!ir::has_counts(attrs, {"widths", "present"}) || inputs.empty()) return false;
      const Ints& widths = attrs.get_ints("widths");
      constexpr std::int64_t kMost = std::int64_t{1} << 26;
      return are_parts(widths, attrs.get_ints("present"), inputs, 1) &&
             std::accumulate(widths.begin(), widths.end(), std::int64_t{0}) <= kMost;
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const Ints& widths = attrs.get_ints("widths");
      const Ints& present = attrs.get_ints("present");
      const DType type = inputs[0].dtype();
      const std::size_t size = size_of(type);
      std::vector<std::byte> bytes;
      std::int64_t columns = 0;
      std::size_t next = 0;
      for (std::size_t i = 0; i < widths.size(); ++i) {
        const std::size_t width = static_cast<std::size_t>(widths[i]) * size;
        if (present[i] != 0) {
          const auto own = inputs[next++].bytes().first(width);
          bytes.insert(bytes.end(), own.begin(), own.end());
        } else {
          bytes.resize(bytes.size() + width);
        }
        columns += widths[i];
      }
      return std::vector{Tensor(type, {columns}, ir::Buffer::take(std::move(bytes)))};
    }};

}  // namespace sinter::fusion
