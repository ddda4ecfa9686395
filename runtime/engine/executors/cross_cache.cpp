// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/executors/cross_cache.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "runtime/format_error.h"

namespace sinter::engine {
namespace {

// Limits over all slots.
constexpr std::uint64_t kHostBytes = std::uint64_t{1} << 30, kDeviceBytes = std::uint64_t{4} << 30;

std::uint64_t position_bytes(const BindingInfo& input) {
  std::uint64_t bytes = size_of(input.dtype);
  for (std::size_t d = 0; d < input.shape.size(); ++d)
    if (d + 2 != input.shape.size()) bytes *= static_cast<std::uint64_t>(input.shape[d].max);
  return bytes;
}

}  // namespace

CrossCache::CrossCache(Session& session, const plan::ServingPlan& plan, int slots,
                       std::optional<int> device)
    : block_size_(plan.block_size), positions_(static_cast<std::size_t>(slots)) {
  const plan::ServingPlan::Crossed& crossed = *plan.crossed;
  const auto& inputs = session.plan().inputs();
  std::uint64_t bytes = 0;  // of one block
  for (const std::size_t i : crossed.given)
    bytes += position_bytes(inputs[i]) * static_cast<std::uint64_t>(block_size_);
  // A plan may declare encoder inputs without elements, whose blocks have no bytes.
  const std::uint64_t most =
      (device ? kDeviceBytes : kHostBytes) /
      (std::max<std::uint64_t>(bytes, 1) * static_cast<std::uint64_t>(slots));
  const std::int64_t numbered = crossed.positions / block_size_ / slots;
  blocks_ =
      static_cast<int>(std::min<std::uint64_t>({static_cast<std::uint64_t>(crossed.table_blocks),
                                                most, static_cast<std::uint64_t>(numbered)}));
  if (blocks_ < 1)
    throw usage_error("encoder outputs of {} sequences take too much memory: run fewer", slots);
  for (const std::size_t i : crossed.given) {
    Given& one = given_.emplace_back();
    one.input = {inputs[i].name, inputs[i].dtype, {}};
    for (const DimInfo& dim : inputs[i].shape) one.input.shape.push_back(dim.max);
    one.input.shape[one.input.shape.size() - 2] = std::int64_t{slots} * blocks_ * block_size_;
    TensorView view{one.input.dtype, one.input.shape};
    bytes_ += view.byte_count();
    if (device) {
      one.device.emplace(*device, view.byte_count());
      view.data = one.device->data();
      view.memory = Memory::kDevice;
      view.device = *device;
    } else {
      one.host.resize(view.byte_count());
      view.data = one.host.data();
    }
    session.use_input(i, view);
  }
}

std::vector<CrossInput> CrossCache::limits() const {
  std::vector<CrossInput> limits;
  for (const Given& one : given_) {
    limits.push_back(one.input);
    limits.back().shape[one.input.shape.size() - 2] = std::int64_t{blocks_} * block_size_;
  }
  return limits;
}

void CrossCache::set(int slot, const EncoderOutput& given) {
  for (Given& one : given_) {
    const auto tensor =
        std::ranges::find(given.tensors, one.input.name, &EncoderOutput::Tensor::name);
    const std::vector<std::int64_t>&all = one.input.shape, &shape = tensor->shape;
    const std::size_t axis = all.size() - 2;
    const std::size_t row = static_cast<std::size_t>(all.back()) * size_of(one.input.dtype);
    const auto count = static_cast<std::size_t>(
        std::accumulate(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(axis),
                        std::int64_t{1}, std::multiplies<>()));
    const std::size_t bytes = static_cast<std::size_t>(shape[axis]) * row,
                      step = static_cast<std::size_t>(all[axis]) * row,
                      first = static_cast<std::size_t>(slot) *
                              static_cast<std::size_t>(blocks_ * block_size_) * row;
    for (std::size_t i = 0; i < count; ++i) {
      const std::byte* const from = tensor->data.data() + i * bytes;
      if (one.device)
        one.device->copy_from_host(from, bytes, first + i * step);
      else
        std::memcpy(one.host.data() + first + i * step, from, bytes);
    }
    positions_[static_cast<std::size_t>(slot)] = static_cast<int>(shape[axis]);
  }
}

void CrossCache::fill_row(int slot, std::int32_t* row, int columns) const {
  // Entries beyond the slot's blocks may be any valid block.
  std::fill(row, row + columns, 0);
  std::iota(row, row + std::min(blocks_, columns), slot * blocks_);
}

}  // namespace sinter::engine
