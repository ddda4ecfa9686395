// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm/dnnl/primitive_parts.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/cpu/gemm/dnnl/dnnl_support.h"
#include "runtime/threads/thread_pool.h"

namespace sinter::runtime::cpu {

BoundPrimitive::BoundPrimitive(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad)
    : primitive_(std::move(primitive)) {
  if (scratchpad.get_size() == 0) return;
  take_scratch(scratchpad.get_size());
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

void BoundPrimitive::bind_copy(int argument, const dnnl::memory::desc& layout, const Block& block,
                               bool is_result) {
  dnnl::memory memory(layout, dnnl_engine(), DNNL_MEMORY_NONE);
  copies_.push_back({memory.get(), block, take_scratch(layout.get_size()), is_result});
  bind(argument, std::move(memory));
}

std::size_t BoundPrimitive::take_scratch(std::size_t bytes) {
  const std::size_t offset = scratch_bytes_;
  scratch_bytes_ += (bytes + 63) / 64 * 64;
  return offset;
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
  if (scratch_) place(scratch_, scratch);  // the scratchpad is the first entry
  const auto copy = [&](const Copy& one) {
    const Block& block = one.block;
    std::byte *there = (block.memory ? block.memory : buffers[block.buffer]) + block.byte_offset,
              *here = scratch + one.scratch;
    for (std::size_t r = 0; r < block.rows; ++r, there += block.pitch, here += block.width)
      std::memcpy(one.is_result ? there : here, one.is_result ? here : there, block.width);
  };
  for (const Copy& one : copies_) {
    place(one.memory, scratch + one.scratch);
    if (!one.is_result) copy(one);
  }
  compute();
  for (const Copy& one : copies_)
    if (one.is_result) copy(one);
}

void BoundPrimitive::compute() {
  const auto run = [&] {
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(primitive_.get(), dnnl_stream().get(),
                               static_cast<int>(arguments_.size()), arguments_.data()),
        "could not execute a primitive");
    dnnl_stream().wait();
  };
  if (!bare_) return run();
  const InvalidFlag invalid;
  run();
  if (invalid.is_raised()) restore_nan();
}

void BoundPrimitive::restore_nan() {
  const auto result = std::ranges::find(arguments_, DNNL_ARG_DST, &dnnl_exec_arg_t::arg);
  const dnnl::memory& memory = memories_[static_cast<std::size_t>(result - arguments_.begin())];
  bare_->restore_nan(arguments_, memory.get_desc(), memory.get_data_handle());
}

void PrimitiveParts::add(BoundPrimitive part) {
  workspace_bytes_ = std::max(workspace_bytes_, part.scratch_bytes());
  parts_.push_back(std::move(part));
}

void PrimitiveParts::execute(std::span<std::byte* const> buffers,
                             std::span<std::byte* const> workspaces) {
  threads::run_parts(std::ssize(parts_), std::min(threads_, static_cast<int>(workspaces.size())),
                     [&](threads::Member& member) {
                       std::byte* scratch = workspaces[static_cast<std::size_t>(member.me())];
                       while (const auto part = member.next())
                         parts_[static_cast<std::size_t>(*part)].execute(buffers, scratch);
                     });
}

std::int64_t parts_for(double multiplications, double bytes) {
  // Work of one thread in a microsecond, and microseconds of a part.
  constexpr double kMultiplications = 70e3, kBytes = 10e3, kLeast = 16, kSmall = 25, kLarge = 200;
  constexpr double kMany = 16;
  const double time = multiplications / kMultiplications + bytes / kBytes;
  if (time < kLeast) return 1;
  const double parts = std::max(std::clamp(time / kSmall, 2.0, kMany), time / kLarge);
  return static_cast<std::int64_t>(
      std::max(1.0, std::min(parts, multiplications / kMultiplicationsOfThread)));
}

}  // namespace sinter::runtime::cpu
