// SPDX-License-Identifier: Apache-2.0
// An output with one row for each sample, few of which are copied to the host.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <sinter/devices.h>
#include <sinter/session.h>

namespace sinter::engine {

/// Memory for an output with one row for each sample, on the plan's device. The session must
/// outlive it.
class RowOutput {
 public:
  /// Rows of `columns` elements of `dtype`. `device`: a GPU; nullopt: the host.
  RowOutput(Session& session, std::size_t output, DType dtype, int columns,
            std::optional<int> device);

  /// Call before each run of `rows` rows: a captured graph may depend on the number.
  void place(int rows);

  /// Rows [first, first + count) of the last finished run; valid until the next call or run.
  const std::byte* rows(int first, int count);

 private:
  Session* session_;
  std::size_t output_, row_bytes_;
  DType dtype_;
  int columns_;
  std::optional<int> device_;
  std::optional<DeviceBuffer> buffer_;
  int placed_ = 0;
  std::vector<std::byte> copy_;
};

}  // namespace sinter::engine
