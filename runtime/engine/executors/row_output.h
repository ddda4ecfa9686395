// SPDX-License-Identifier: Apache-2.0
// An output of a row for each sample, most of which nobody reads on the host.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <sinter/devices.h>
#include <sinter/session.h>

namespace sinter::engine {

/// Stays where the plan runs. The session must outlive it.
class RowOutput {
 public:
  /// Rows of `columns` elements of `dtype`, on a GPU unless `device` is nothing.
  RowOutput(Session& session, std::size_t output, DType dtype, int columns,
            std::optional<int> device);

  /// Call before a run of `rows` rows; its graph may have been captured for that number.
  void place(int rows);

  /// Rows [first, first + count) of the last run, which has ended; until the next call or run.
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
