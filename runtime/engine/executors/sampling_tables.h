// SPDX-License-Identifier: Apache-2.0
// Token tables that a plan's sampler reads besides logits, in the plan's memory.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include <sinter/devices.h>
#include <sinter/tensor.h>

#include "runtime/sampling/draw.h"

namespace sinter::engine {

/// Allowed tokens, seen tokens and biases of each slot: the operands `sets`, `biased` and `biases`
/// of SampleTokens (ir/ops/sampling.cpp).
class SamplingTables {
 public:
  /// Maximum number of biased tokens in a slot, including those from penalties.
  static constexpr int kBiases = 2048;

  /// `device`: a GPU; nullopt: the host's memory.
  SamplingTables(int slots, int vocabulary, std::optional<int> device);

  /// These replace the slot's contents; on a GPU at the next upload().
  void set_allowed(int slot, std::span<const std::uint32_t> tokens);
  void set_seen(int slot, std::span<const std::uint32_t> tokens);
  /// At most kBiases.
  void set_biases(int slot, std::span<const TokenId> tokens, std::span<const float> biases);
  /// Rows of `sets`, and the index of a slot's first bias.
  std::int64_t allowed_row(int slot) const { return slot; }
  std::int64_t seen_row(int slot) const { return slots_ + slot; }
  std::int64_t first_bias(int slot) const { return std::int64_t{slot} * kBiases; }

  /// No run may be in flight.
  void upload();

  /// Valid during this object's lifetime; i32 [2 slots, words], i32 and f32 [slots x kBiases].
  TensorView sets() const;
  TensorView biased() const;
  TensorView biases() const;

 private:
  template <typename T>
  struct Table {
    std::vector<T> host;
    std::optional<DeviceBuffer> device;
    std::size_t row = 0;            // elements of a row
    std::set<std::size_t> changed;  // rows to upload

    Table(std::size_t rows, std::size_t length, std::optional<int> on);
    void set(std::size_t number, std::span<const T> values);
    void upload();
    TensorView view(DType dtype, std::vector<std::int64_t> shape) const;
  };

  int slots_;
  Table<std::uint32_t> sets_;
  Table<TokenId> biased_;
  Table<float> biases_;
};

}  // namespace sinter::engine
