// SPDX-License-Identifier: Apache-2.0
// Threads take whole states, each with its tokens in order.
#include <algorithm>
#include <cstring>

#include "runtime/cpu/ops/element.h"
#include "runtime/cpu/ops/recurrence/chunk.h"
#include "runtime/operators/operator_kernel.h"

namespace sinter::runtime::cpu {
namespace {

// A chunk of fewer tokens costs more than they do one after the other.
constexpr std::int64_t kShortestChunk = 8;

class LinearAttention final : public PreparedOperator {
 public:
  explicit LinearAttention(const OperatorCall& call)
      : batch_(call.sizes["batch"]),
        length_(call.sizes["length"]),
        heads_(call.sizes["heads"]),
        query_heads_(call.sizes["query_heads"]),
        key_heads_(call.sizes["key_heads"]),
        value_heads_(call.sizes["value_heads"]),
        out_heads_(call.sizes["out_heads"]),
        has_state_(call.sizes["state"] == 1),
        scale_(static_cast<float>(call.real("scale"))) {
    sizes_.rule = static_cast<UpdateRule>(call.sizes["rule"]);
    sizes_.decay = static_cast<Decay>(call.sizes["decay"]);
    sizes_.keys = call.sizes["key_size"];
    sizes_.values = call.sizes["value_size"];
    sizes_.queries = out_heads_ / heads_;
    for (std::size_t i = 0; i < call.step.inputs.size(); ++i) types_[i] = call.type_of_input(i);
    state_type_ = static_cast<DType>(call.plan.buffers[call.step.outputs[1]->buffer]->dtype);
    // Multiplications, fewer than which are not worth waking another thread for.
    constexpr double kOfThread = 2e4;
    const double work = static_cast<double>(batch_ * heads_ * std::max<std::int64_t>(length_, 1)) *
                        static_cast<double>(sizes_.keys * sizes_.values);
    threads_ = static_cast<int>(
        std::clamp(work / kOfThread, 1.0, static_cast<double>(std::max(call.threads, 1))));
  }

  std::size_t workspace_bytes() const override {
    return whole_lines(TokenRows::floats(sizes_) * sizeof(float));
  }

  void run(const Operands& operands, std::span<std::byte* const> workspaces) const override {
    each_row(batch_ * heads_, threads_, workspaces, [&](std::int64_t state, std::byte* workspace) {
      run_state(operands, state, reinterpret_cast<float*>(workspace));
    });
  }

 private:
  /// Element `index` of input `input`.
  const std::byte* at(const Operands& operands, std::size_t input, std::int64_t index) const {
    return operands.input<std::byte>(input) +
           index * static_cast<std::int64_t>(size_of(types_[input]));
  }

  void run_state(const Operands& operands, std::int64_t state, float* workspace) const {
    TokenRows rows(sizes_, workspace);
    const std::int64_t keys = sizes_.keys, values = sizes_.values, pitch = sizes_.pitch();
    const std::int64_t batch = state / heads_, head = state % heads_;
    const auto width = static_cast<std::int64_t>(size_of(state_type_));
    std::byte* const last = operands.output<std::byte>(1) + state * keys * values * width;
    // The state is updated where it is stored, if it can be.
    const bool in_place = state_type_ == DType::kFloat32 && pitch == values;
    if (in_place) rows.state = reinterpret_cast<float*>(last);
    // The state before it may be in the same place.
    if (!has_state_ || pitch > values) std::fill(rows.state, rows.state + keys * pitch, 0.0F);
    for (std::int64_t i = 0; i < keys && has_state_; ++i)
      load_floats(types_[6], at(operands, 6, (state * keys + i) * values), 1, values,
                  rows.state + i * pitch);
    for (std::int64_t first = 0; first < length_; first += kChunk) {
      const std::int64_t count = std::min(kChunk, length_ - first);
      load(operands, rows, batch * length_ + first, head, count);
      for (std::int64_t t = 0; t < count;) {
        const std::int64_t length = chunk_length(sizes_, rows, t, count - t);
        (length < kShortestChunk ? take_tokens : take_chunk)(sizes_, rows, t, length);
        t += length;
      }
      store(operands, rows, batch * length_ + first, head, count);
    }
    for (std::int64_t i = 0; i < keys && !in_place; ++i)
      store_floats(state_type_, rows.state + i * pitch, last + i * values * width, 1, values);
  }

  void load(const Operands& operands, TokenRows& rows, std::int64_t token, std::int64_t head,
            std::int64_t count) const {
    const std::int64_t keys = sizes_.keys, values = sizes_.values, pitch = sizes_.pitch();
    const std::int64_t decays = sizes_.decays();
    // Row `index` of `size` elements of an input.
    const auto row = [&](std::size_t input, std::int64_t index, std::int64_t size, float* to) {
      load_floats(types_[input], at(operands, input, index * size), 1, size, to);
    };
    for (std::int64_t t = 0; t < count; ++t, ++token) {
      for (std::int64_t q = 0; q < sizes_.queries; ++q) {
        const std::int64_t from = (head * sizes_.queries + q) / (out_heads_ / query_heads_);
        float* const query = rows.query + (q * kChunk + t) * keys;
        row(0, token * query_heads_ + from, keys, query);
        for (std::int64_t i = 0; i < keys; ++i) query[i] *= scale_;
      }
      row(1, token * key_heads_ + head / (heads_ / key_heads_), keys, rows.key + t * keys);
      row(2, token * value_heads_ + head / (heads_ / value_heads_), values, rows.value + t * pitch);
      std::fill(rows.value + t * pitch + values, rows.value + (t + 1) * pitch, 0.0F);
      if (decays > 0) row(3, token * heads_ + head, decays, rows.decay + t * decays);
      if (sizes_.rule == UpdateRule::kDelta) row(4, token * heads_ + head, 1, rows.beta + t);
      if (sizes_.rule == UpdateRule::kGeneralDelta)
        row(5, token * heads_ + head, 2 * keys, rows.erase + t * 2 * keys);
    }
  }

  void store(const Operands& operands, const TokenRows& rows, std::int64_t token, std::int64_t head,
             std::int64_t count) const {
    const std::int64_t values = sizes_.values, pitch = sizes_.pitch();
    const auto width = static_cast<std::int64_t>(size_of(types_[0]));
    for (std::int64_t q = 0; q < sizes_.queries; ++q)
      for (std::int64_t t = 0; t < count; ++t) {
        const std::int64_t to = (token + t) * out_heads_ + head * sizes_.queries + q;
        store_floats(types_[0], rows.out + (q * kChunk + t) * pitch,
                     operands.output<std::byte>(0) + to * values * width, 1, values);
      }
  }

  StateSizes sizes_;
  std::int64_t batch_, length_, heads_, query_heads_, key_heads_, value_heads_, out_heads_;
  bool has_state_;
  float scale_;
  DType types_[7] = {};
  DType state_type_ = DType::kFloat32;
  int threads_ = 1;
};

}  // namespace

const OperatorKernel& linear_attention_kernel() {
  static const OperatorKernel kernel = {"linear_attention", prepare<LinearAttention>};
  return kernel;
}

}  // namespace sinter::runtime::cpu
