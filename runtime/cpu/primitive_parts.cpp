#include "runtime/cpu/primitive_parts.h"

#include <algorithm>
#include <utility>

#include "runtime/cpu/dnnl_support.h"
#include "runtime/threads/thread_pool.h"

namespace sinter::runtime::cpu {

BoundPrimitive::BoundPrimitive(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad)
    : primitive_(std::move(primitive)), scratch_bytes_(scratchpad.get_size()) {
  if (scratch_bytes_ == 0) return;
  dnnl::memory memory(scratchpad, dnnl_engine(), DNNL_MEMORY_NONE);
  scratch_ = memory.get();
  bind(DNNL_ARG_SCRATCHPAD, std::move(memory));
}

void BoundPrimitive::bind(int argument, const dnnl::memory::desc& layout, std::uint32_t buffer,
                          std::uint64_t byte_offset) {
  dnnl::memory memory(layout, dnnl_engine(), DNNL_MEMORY_NONE);
  addresses_.push_back({memory.get(), buffer, byte_offset, nullptr});
  bind(argument, std::move(memory));
}

void BoundPrimitive::bind(int argument, dnnl::memory memory) {
  arguments_.push_back({argument, memory.get()});
  memories_.push_back(std::move(memory));
}

void BoundPrimitive::execute(std::span<std::byte* const> buffers, std::byte* scratch) {
  const auto place = [](dnnl_memory_t memory, std::byte* data) {
    dnnl::error::wrap_c_api(dnnl_memory_set_data_handle(memory, data),
                            "could not set an argument's address");
  };
  for (Address& address : addresses_) {
    std::byte* data = buffers[address.buffer] + address.byte_offset;
    if (data == address.last) continue;
    place(address.memory, data);
    address.last = data;
  }
  if (scratch_) place(scratch_, scratch);
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(primitive_.get(), dnnl_stream().get(),
                             static_cast<int>(arguments_.size()), arguments_.data()),
      "could not execute a primitive");
  dnnl_stream().wait();
}

void PrimitiveParts::add(BoundPrimitive part) {
  workspace_bytes_ = std::max(workspace_bytes_, part.scratch_bytes());
  parts_.push_back(std::move(part));
}

void PrimitiveParts::execute(std::span<std::byte* const> buffers,
                             std::span<std::byte* const> workspaces) {
  threads::run_parts(static_cast<std::int64_t>(parts_.size()),
                     std::min(threads_, static_cast<int>(workspaces.size())),
                     [&](threads::Member& member) {
                       std::byte* scratch = workspaces[static_cast<std::size_t>(member.me())];
                       while (const auto part = member.next())
                         parts_[static_cast<std::size_t>(*part)].execute(buffers, scratch);
                     });
}

std::int64_t parts_for(double microseconds) {
  constexpr double kLeast = 16, kSmall = 25, kLarge = 200;  // microseconds of a part
  constexpr std::int64_t kMany = 16;
  if (microseconds < kLeast) return 1;
  const auto small =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(microseconds / kSmall), 2, kMany);
  return std::max(small, static_cast<std::int64_t>(microseconds / kLarge));
}

double microseconds_of(double multiplications, double bytes) {
  constexpr double kMultiplications = 70e3, kBytes = 10e3;  // of a microsecond
  return multiplications / kMultiplications + bytes / kBytes;
}

}  // namespace sinter::runtime::cpu
