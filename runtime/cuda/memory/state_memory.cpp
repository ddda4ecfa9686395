// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/memory/state_memory.h"

#include <utility>

#include "graphs/driver.h"

namespace sinter::runtime {

StateMemory::StateMemory(graphs::ContextPtr context, std::size_t states,
                         graphs::DeviceAllocatorPtr allocator)
    : context_(std::move(context)),
      allocator_(std::move(allocator)),
      memory_(states),
      copies_(states) {}

bool StateMemory::needs_growth(std::span<const std::uint64_t> wanted) const {
  return growth(wanted) > 0;
}

std::uint64_t StateMemory::growth(std::span<const std::uint64_t> wanted) const {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i] > memory_[i].size()) bytes += wanted[i];
  return bytes;
}

void StateMemory::reserve(std::span<const std::uint64_t> wanted, CUstream stream) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] <= memory_[i].size()) continue;
    memory_[i] = {};
    memory_[i] = graphs::DeviceMemory(context_, wanted[i], allocator_);
    fill_with_zeros(i, stream);
  }
  wait(stream);
}

void StateMemory::write(std::size_t index, const TensorView& view, CUstream stream) {
  const std::uint64_t bytes = view.byte_count();
  if (bytes == 0) return;
  const graphs::Driver& driver = context_->driver();
  if (view.memory == Memory::kDevice)
    driver.memcpy_dtod_async(address(index), reinterpret_cast<CUdeviceptr>(view.data), bytes,
                             stream);
  else
    driver.memcpy_htod_async(address(index), view.data, bytes, stream);
  wait(stream);
}

const void* StateMemory::read(std::size_t index, std::uint64_t bytes, CUstream stream) {
  std::vector<std::byte>& copy = copies_[index];
  copy.resize(bytes);
  if (bytes > 0) context_->driver().memcpy_dtoh_async(copy.data(), address(index), bytes, stream);
  wait(stream);
  return copy.data();
}

void StateMemory::clear(CUstream stream) {
  for (std::size_t i = 0; i < memory_.size(); ++i) fill_with_zeros(i, stream);
  wait(stream);
}

std::uint64_t StateMemory::size() const {
  std::uint64_t bytes = 0;
  for (const graphs::DeviceMemory& memory : memory_) bytes += memory.size();
  return bytes;
}

void StateMemory::fill_with_zeros(std::size_t index, CUstream stream) {
  if (memory_[index].size() > 0)
    context_->driver().memset_d8_async(address(index), 0, memory_[index].size(), stream);
}

void StateMemory::wait(CUstream stream) const { context_->driver().stream_synchronize(stream); }

}  // namespace sinter::runtime
