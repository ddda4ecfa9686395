// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/executors/sampling_tables.h"

#include <algorithm>

namespace sinter::engine {

template <typename T>
SamplingTables::Table<T>::Table(std::size_t rows, std::size_t length, std::optional<int> on)
    : host(rows * length), row(length) {
  if (on) device.emplace(*on, host.size() * sizeof(T));
}

template <typename T>
void SamplingTables::Table<T>::set(std::size_t number, std::span<const T> values) {
  const auto to = host.begin() + static_cast<std::ptrdiff_t>(number * row);
  const auto end = std::ranges::copy(values.first(std::min(values.size(), row)), to).out;
  std::fill(end, to + static_cast<std::ptrdiff_t>(row), T{});
  if (device) changed.insert(number);
}

template <typename T>
void SamplingTables::Table<T>::upload() {
  // One copy for each range of adjacent rows.
  for (auto first = changed.begin(); first != changed.end();) {
    auto last = first;
    std::size_t count = 0;
    while (last != changed.end() && *last == *first + count) ++last, ++count;
    device->copy_from_host(host.data() + *first * row, count * row * sizeof(T),
                           *first * row * sizeof(T));
    first = last;
  }
  changed.clear();
}

template <typename T>
TensorView SamplingTables::Table<T>::view(DType dtype, std::vector<std::int64_t> shape) const {
  if (!device) return {dtype, std::move(shape), host.data()};
  return {dtype, std::move(shape), device->data(), Memory::kDevice, device->device()};
}

SamplingTables::SamplingTables(int slots, int vocabulary, std::optional<int> device)
    : slots_(slots),
      sets_(2 * static_cast<std::size_t>(slots), sampling::TokenSets::words(vocabulary), device),
      biased_(static_cast<std::size_t>(slots), kBiases, device),
      biases_(static_cast<std::size_t>(slots), kBiases, device) {}

void SamplingTables::set_allowed(int slot, std::span<const std::uint32_t> tokens) {
  sets_.set(static_cast<std::size_t>(allowed_row(slot)), tokens);
}
void SamplingTables::set_seen(int slot, std::span<const std::uint32_t> tokens) {
  sets_.set(static_cast<std::size_t>(seen_row(slot)), tokens);
}
void SamplingTables::set_biases(int slot, std::span<const TokenId> tokens,
                                std::span<const float> biases) {
  biased_.set(static_cast<std::size_t>(slot), tokens);
  biases_.set(static_cast<std::size_t>(slot), biases);
}

void SamplingTables::upload() {
  sets_.upload();
  biased_.upload();
  biases_.upload();
}

TensorView SamplingTables::sets() const {
  return sets_.view(DType::kInt32,
                    {2 * std::int64_t{slots_}, static_cast<std::int64_t>(sets_.row)});
}
TensorView SamplingTables::biased() const {
  return biased_.view(DType::kInt32, {std::int64_t{slots_} * kBiases});
}
TensorView SamplingTables::biases() const {
  return biases_.view(DType::kFloat32, {std::int64_t{slots_} * kBiases});
}

}  // namespace sinter::engine
