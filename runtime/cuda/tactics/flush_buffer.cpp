// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/tactics/flush_buffer.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "graphs/stream.h"

namespace sinter::runtime {
namespace {

// The driver needs a terminating zero.
constexpr char kReadAll[] =
#include "runtime/cuda/read_all.ptx.inc"
    ;
constexpr char kKeepAll[] =
#include "runtime/cuda/keep_all.ptx.inc"
    ;
constexpr int kKeepingMajor = 8;  // first compute capability with L2 eviction priorities
constexpr std::uint64_t kBlockBytes = 32u << 10;
constexpr unsigned kThreads = 256;

}  // namespace

void FlushBuffer::make(CUstream stream) {
  constexpr std::uint64_t kTimesL2 = 8;
  constexpr std::uint64_t kLeast = 1u << 20;
  if (memory_.address()) return;
  const auto load = [&](const char* name, std::span<const char> text) {
    return graphs::Module(context_, std::as_bytes(text), name);
  };
  if (!reading_) {
    reading_.emplace(load("that reads memory", kReadAll));
    read_all_ = reading_->function("sinter_read_all");
  }
  if (!keeping_ && context_->properties().major >= kKeepingMajor) {
    keeping_.emplace(load("that fills the L2", kKeepAll));
    keep_all_ = keeping_->function("sinter_keep_all");
    let_go_ = keeping_->function("sinter_let_go");
  }
  const std::uint64_t bytes = std::max(kLeast, kTimesL2 * context_->properties().l2_bytes);
  memory_ = graphs::DeviceMemory(context_, bytes / kBlockBytes * kBlockBytes);
  context_->driver().memset_d8_async(memory_.address(), 0, memory_.size(), stream);
}

void FlushBuffer::launch(CUfunction kernel, std::uint64_t begin, std::uint64_t end,
                         CUstream stream) const {
  graphs::LaunchConfig config;
  config.grid[0] = static_cast<unsigned>((end - begin) / kBlockBytes);
  config.block[0] = kThreads;
  CUdeviceptr base = memory_.address() + begin;
  void* arguments[] = {&base};
  graphs::launch(context_->driver(), kernel, config, stream, arguments);
}

void FlushBuffer::flush(CUstream stream) {
  make(stream);
  const std::uint64_t end = memory_.size(), kept = end / 4 / kBlockBytes * kBlockBytes;
  if (keep_all_) {
    launch(keep_all_, 0, kept, stream);
    launch(let_go_, 0, kept, stream);
  }
  launch(read_all_, keep_all_ ? kept : 0, end, stream);
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

std::optional<double> cold_time(const graphs::ContextPtr& context, CUstream stream,
                                FlushBuffer& flush, const std::function<bool()>& launch) {
  constexpr int kRepeats = 9;
  constexpr double kLongMicroseconds = 2000;
  if (!launch()) return std::nullopt;
  const graphs::Event start(context, true);
  const graphs::Event stop(context, true);
  std::vector<double> times;
  for (int i = 0; i < kRepeats; ++i) {
    flush.flush_if_possible(stream);
    start.record(stream);
    if (!launch()) return std::nullopt;
    stop.record(stream);
    stop.synchronize();
    times.push_back(stop.microseconds_since(start));
    if (times.back() > kLongMicroseconds) break;  // long enough for a single measurement
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

}  // namespace sinter::runtime
