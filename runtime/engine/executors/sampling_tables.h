// SPDX-License-Identifier: Apache-2.0
// What a plan's draws read besides the logits: rows of tokens, kept where the plan runs.
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

/// For each slot the tokens that are allowed, those that were seen, and biases: the operands
/// `sets`, `biased` and `biases` of SampleTokens (ir/ops/sampling.cpp).
class SamplingTables {
 public:
  /// Tokens with a bias that a slot has room for, those of a text with penalties among them.
  static constexpr int kBiases = 2048;

  /// In the host's memory without a device.
  SamplingTables(int slots, int vocabulary, std::optional<int> device);

  /// Take the place of what the slot had; on a GPU with the next upload().
  void set_allowed(int slot, std::span<const std::uint32_t> tokens);
  void set_seen(int slot, std::span<const std::uint32_t> tokens);
  /// At most kBiases.
  void set_biases(int slot, std::span<const TokenId> tokens, std::span<const float> biases);
  /// Rows of `sets`, and the first of a slot's biases.
  std::int64_t allowed_row(int slot) const { return slot; }
  std::int64_t seen_row(int slot) const { return slots_ + slot; }
  std::int64_t first_bias(int slot) const { return std::int64_t{slot} * kBiases; }

  /// No run may be in flight.
  void upload();

  /// Valid as long as this object; i32 [2 slots, words], i32 and f32 [slots x kBiases].
  TensorView sets() const;
  TensorView biased() const;
  TensorView biases() const;

 private:
  template <typename T>
  struct Table {
    std::vector<T> host;
    std::optional<DeviceBuffer> device;
    std::size_t row = 0;            // elements
    std::set<std::size_t> changed;  // rows

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
