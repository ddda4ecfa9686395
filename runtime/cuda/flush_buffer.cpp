#include "runtime/cuda/flush_buffer.h"

#include <algorithm>
#include <cstdint>
#include <span>

namespace sinter::runtime {
namespace {

// The driver wants the zero behind the text.
constexpr char kReadAll[] =
#include "runtime/cuda/read_all.ptx.inc"
    ;
constexpr std::uint64_t kBlockBytes = 32u << 10;
constexpr unsigned kThreads = 256;

}  // namespace

void FlushBuffer::make(CUstream stream) {
  constexpr std::uint64_t kTimesL2 = 8;
  constexpr std::uint64_t kLeast = 1u << 20;
  if (memory_.address()) return;
  if (!module_) {
    module_.emplace(context_, std::as_bytes(std::span(kReadAll)), "that empties the L2");
    read_all_ = module_->function("sinter_read_all");
  }
  const std::uint64_t bytes = std::max(kLeast, kTimesL2 * context_->properties().l2_bytes);
  memory_ = graphs::DeviceMemory(context_, bytes / kBlockBytes * kBlockBytes);
  context_->driver().memset_d8_async(memory_.address(), 0, memory_.size(), stream);
}

void FlushBuffer::flush(CUstream stream) {
  make(stream);
  graphs::LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(memory_.size() / kBlockBytes);
  config.block[0] = kThreads;
  CUdeviceptr base = memory_.address();
  void* arguments[] = {&base};
  graphs::launch(context_->driver(), read_all_, config, stream, arguments);
}

void FlushBuffer::flush_if_possible(CUstream stream) {
  if (is_refused_) return;
  try {
    make(stream);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory && error.code() != ErrorCode::kDevice) throw;
    is_refused_ = true;
    return;
  }
  flush(stream);
}

}  // namespace sinter::runtime
