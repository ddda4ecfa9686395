// SPDX-License-Identifier: Apache-2.0
// Threads take whole states, each with its tokens in order.
#include <algorithm>
#include <cstring>
#include <optional>

#include "runtime/cpu/ops/element.h"
#include "runtime/cpu/ops/recurrence/chunk.h"
#include "runtime/operators/linear_attention/state_threads.h"

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
        slots_(call.sizes.find("states")),
        sequences_(slots_ ? call.sizes["starts"] - 1 : batch_),
        scale_(static_cast<float>(call.real("scale"))),
        threads_(call.threads) {
    sizes_.rule = static_cast<UpdateRule>(call.sizes["rule"]);
    sizes_.decay = static_cast<Decay>(call.sizes["decay"]);
    sizes_.keys = call.sizes["key_size"];
    sizes_.values = call.sizes["value_size"];
    sizes_.queries = out_heads_ / heads_;
    for (std::size_t i = 0; i < call.step.inputs.size(); ++i) types_[i] = call.type_of_input(i);
    state_type_ = static_cast<DType>(call.plan.buffers[call.step.outputs[1]->buffer]->dtype);
    constexpr double kMultiplicationsPerNanosecond = 5;
    state_nanoseconds_ = static_cast<double>(std::max<std::int64_t>(batch_ * length_, 1)) /
                         static_cast<double>(std::max<std::int64_t>(sequences_, 1)) *
                         static_cast<double>(sizes_.keys * sizes_.values) /
                         kMultiplicationsPerNanosecond;
  }

  std::size_t workspace_bytes() const override {
    return whole_lines(TokenRows::floats(sizes_) * sizeof(float));
  }

  void run(const Operands& operands, std::span<std::byte* const> workspaces) const override {
    if (slots_) keep_slots(operands);
    each_row(sequences_ * heads_, state_nanoseconds_, threads_, workspaces,
             [&](std::int64_t state, std::byte* workspace) {
               (slots_ ? run_ragged(operands, state, reinterpret_cast<float*>(workspace))
                       : run_state(operands, state, reinterpret_cast<float*>(workspace)));
             });
  }

 private:
  /// Element `index` of input `input`.
  const std::byte* at(const Operands& operands, std::size_t input, std::int64_t index) const {
    return operands.input<std::byte>(input) +
           index * static_cast<std::int64_t>(size_of(types_[input]));
  }

  /// Where state `state` lies behind the run.
  std::byte* new_state(const Operands& operands, std::int64_t state) const {
    return operands.output<std::byte>(1) +
           state * sizes_.keys * sizes_.values * static_cast<std::int64_t>(size_of(state_type_));
  }

  /// What no token changes stays as it was.
  void keep_slots(const Operands& operands) const {
    std::byte* const to = new_state(operands, 0);
    const auto* const from = operands.input<std::byte>(6);
    if (from != to)
      std::memcpy(to, from, static_cast<std::size_t>(new_state(operands, *slots_ * heads_) - to));
    const std::int64_t end =
        std::clamp<std::int64_t>(operands.input<std::int32_t>(7)[sequences_], 0, length_);
    const std::int64_t row =
        out_heads_ * sizes_.values * static_cast<std::int64_t>(size_of(types_[0]));
    std::memset(operands.output<std::byte>(0) + end * row, 0,
                static_cast<std::size_t>((length_ - end) * row));
  }

  void read_state(const Operands& operands, std::int64_t state, float* to) const {
    for (std::int64_t i = 0; i < sizes_.keys; ++i)
      load_floats(types_[6], at(operands, 6, (state * sizes_.keys + i) * sizes_.values), 1,
                  sizes_.values, to + i * sizes_.pitch());
  }
  void write_state(const float* from, std::byte* to) const {
    const auto row = sizes_.values * static_cast<std::int64_t>(size_of(state_type_));
    for (std::int64_t i = 0; i < sizes_.keys; ++i)
      store_floats(state_type_, from + i * sizes_.pitch(), to + i * row, 1, sizes_.values);
  }

  /// Takes up to kChunk tokens from `token` on.
  void take(const Operands& operands, TokenRows& rows, std::int64_t token, std::int64_t head,
            std::int64_t count) const {
    load(operands, rows, token, head, count);
    for (std::int64_t t = 0; t < count;) {
      const std::int64_t length = chunk_length(sizes_, rows, t, count - t);
      (length < kShortestChunk ? take_tokens : take_chunk)(sizes_, rows, t, length);
      t += length;
    }
    store(operands, rows, token, head, count);
  }

  /// A state of a sequence of a ragged batch, which goes to slots where tokens say so.
  void run_ragged(const Operands& operands, std::int64_t state, float* workspace) const {
    TokenRows rows(sizes_, workspace);
    const std::int64_t sequence = state / heads_, head = state % heads_;
    const auto* const starts = operands.input<std::int32_t>(7);
    const std::int64_t first = std::max(starts[sequence], 0),
                       end = std::min<std::int64_t>(starts[sequence + 1], length_);
    if (first >= end) return;
    std::fill(rows.state, rows.state + sizes_.keys * sizes_.pitch(), 0.0F);
    const std::int64_t source = operands.input<std::int32_t>(8)[first];
    if (source >= 0 && source < *slots_) read_state(operands, source * heads_ + head, rows.state);
    const auto* const slots = operands.input<std::int32_t>(9);
    for (std::int64_t token = first; token < end;) {
      // A chunk ends where its state is wanted.
      std::int64_t count = 1;
      while (count < kChunk && token + count < end && slots[token + count - 1] < 0) ++count;
      take(operands, rows, token, head, count);
      token += count;
      if (const std::int64_t slot = slots[token - 1]; slot >= 0 && slot < *slots_)
        write_state(rows.state, new_state(operands, slot * heads_ + head));
    }
  }

  void run_state(const Operands& operands, std::int64_t state, float* workspace) const {
    TokenRows rows(sizes_, workspace);
    const std::int64_t keys = sizes_.keys, values = sizes_.values, pitch = sizes_.pitch();
    const std::int64_t batch = state / heads_, head = state % heads_;
    std::byte* const last = new_state(operands, state);
    // The state is updated where it is stored, if it can be.
    const bool in_place = state_type_ == DType::kFloat32 && pitch == values;
    if (in_place) rows.state = reinterpret_cast<float*>(last);
    // The state before it may be in the same place.
    if (!has_state_ || pitch > values) std::fill(rows.state, rows.state + keys * pitch, 0.0F);
    if (has_state_) read_state(operands, state, rows.state);
    for (std::int64_t first = 0; first < length_; first += kChunk)
      take(operands, rows, batch * length_ + first, head, std::min(kChunk, length_ - first));
    if (!in_place) write_state(rows.state, last);
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
  std::optional<std::int64_t> slots_;  // of a ragged batch
  std::int64_t sequences_;
  float scale_;
  DType types_[10] = {};
  DType state_type_ = DType::kFloat32;
  int threads_ = 1;
  double state_nanoseconds_ = 0;
};

}  // namespace

std::unique_ptr<PreparedOperator> prepare_linear_attention(const OperatorCall& call) {
  return prepare<LinearAttention>(call);
}

const OperatorKernel& linear_attention_kernel() {
  static const OperatorKernel kernel = {"linear_attention", prepare_linear_attention};
  return kernel;
}

}  // namespace sinter::runtime::cpu
