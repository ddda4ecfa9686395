#include "runtime/cpu/gemm/packed_weights.h"

#include <algorithm>

namespace sinter::runtime::cpu {

// Many weights share a chunk, so that small ones lie in large pages too.
PackedWeights::PackedWeights(std::size_t plan_bytes)
    : chunk_bytes_(std::clamp<std::size_t>(plan_bytes, 1 << 12, 8 << 20)) {}

PackedWeights::~PackedWeights() = default;

std::byte* PackedWeights::allocate(std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  const std::size_t size = (std::max<std::size_t>(bytes, 1) + kLine - 1) / kLine * kLine;
  if (chunks_.empty() || size > chunks_.back().capacity() - used_) {
    HostBuffer chunk;
    chunk.reserve(std::max(size, chunk_bytes_), "the weights in oneDNN's layout");
    chunks_.push_back(std::move(chunk));
    used_ = 0;
  }
  used_ += size;
  return chunks_.back().data() + (used_ - size);
}

std::uint64_t PackedWeights::bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t total = 0;
  for (const HostBuffer& chunk : chunks_) total += chunk.capacity();
  return total;
}

}  // namespace sinter::runtime::cpu
