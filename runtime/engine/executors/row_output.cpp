// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/executors/row_output.h"

namespace sinter::engine {

RowOutput::RowOutput(Session& session, std::size_t output, DType dtype, int columns,
                     std::optional<int> device)
    : session_(&session),
      output_(output),
      row_bytes_(static_cast<std::size_t>(columns) * size_of(dtype)),
      dtype_(dtype),
      columns_(columns),
      device_(device) {}

void RowOutput::place(int rows) {
  if (!device_ || placed_ == rows) return;
  const std::size_t bytes = static_cast<std::size_t>(rows) * row_bytes_;
  if (!buffer_ || buffer_->size() < bytes) buffer_.emplace(*device_, bytes);
  session_->set_output(output_,
                       {dtype_, {rows, columns_}, buffer_->data(), Memory::kDevice, *device_});
  placed_ = rows;
}

const std::byte* RowOutput::rows(int first, int count) {
  const std::size_t offset = static_cast<std::size_t>(first) * row_bytes_;
  if (!device_) return static_cast<const std::byte*>(session_->output(output_).data) + offset;
  copy_.resize(static_cast<std::size_t>(count) * row_bytes_);
  buffer_->copy_to_host(copy_.data(), copy_.size(), offset);
  return copy_.data();
}

}  // namespace sinter::engine
