// SPDX-License-Identifier: Apache-2.0
// Layers with a state of fixed size for each head, which each token updates: linear attention,
// state-space layers, delta rules.
//
// LinearAttention(query, key, value, decay?, beta?, erase?, state?, starts?, sources?, slots?)
//   {rule, scale, decay, state, ragged} -> out, new_state
//
//   query   [batch, length, query_heads, key_size]
//   key     [batch, length, key_heads, key_size]
//   value   [batch, length, value_heads, value_size]
//   decay   [batch, length, heads] or [batch, length, heads, key_size]: logarithms of factors of
//           the state, by head or by row of it. Present if the attribute "decay" is 1
//   beta    [batch, length, heads]: how much of the value is written. With rule "delta"
//   erase   [batch, length, heads, 2 key_size]: vectors a and b. With rule "general_delta"
//   state   [batch, heads, key_size, value_size]: before the first token. Present if the attribute
//           "state" is 1, otherwise zero
//   out     [batch, length, out_heads, value_size], new_state as state: after the last token
//
// A ragged batch, of the attribute "ragged", has the tokens of all sequences end to end, as batch
// 1, and its states in slots: state and new_state are [slots, heads, key_size, value_size].
//
//   starts  i32 [sequences + 1]: the first token of each sequence, then the number of all tokens.
//           out of tokens behind that number is 0 or anything that is there
//   sources i32 [length]: at a sequence's first token, the slot of the state before it; below 0:
//           zeros. Others are not read
//   slots   i32 [length]: the slot that gets the state after a token; below 0: none. Of two
//           sequences no slot that one writes is one that the other reads or writes
//
// heads = max(key_heads, value_heads), out_heads = max(query_heads, heads). Where two of these
// numbers differ the lesser divides the greater, and consecutive heads share: state h has the key
// h / (heads / key_heads), and output h reads the state h / (out_heads / heads). For each token,
// with S the state before it:
//
//   linear         S' = exp(decay) S + key value'
//   delta          S' = exp(decay) S + beta key (value - (exp(decay) S)' key)'
//   general_delta  S' = exp(decay) S + b (a' S) + key value'
//   out = scale query' S'
//
// Mamba-2 is linear with a decay by head, Mamba-1 linear with channels as heads of values of size
// 1; Gated DeltaNet and Kimi Delta Attention are delta, RWKV-7 general_delta (arXiv:2405.21060,
// 2312.00752, 2412.06464, 2510.26692, 2503.14456). query, key and value share a type, which is
// out's; the others have float types of their own. new_state has the state's, or else float32
// (float64 for float64 queries). States and sums are float32 or wider.
#include "ir/recurrence/linear_attention.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/graph.h"
#include "ir/ops/ops.h"

namespace sinter::ir::ops {
namespace {

std::vector<TensorType> infer_linear_attention(const Attrs& attrs, Types inputs) {
  const LinearAttention layer = linear_attention(attrs, inputs);
  const DType type = inputs[0].dtype;
  const DType state = layer.inputs.state        ? inputs[*layer.inputs.state].dtype
                      : type == DType::kFloat64 ? type
                                                : DType::kFloat32;
  return {{type, {layer.batch, layer.length, Dim(layer.out_heads()), layer.value_size}},
          {state, {layer.states, Dim(layer.heads()), layer.key_size, layer.value_size}}};
}

/// The recurrence, token by token.
class Evaluation {
 public:
  Evaluation(const Attrs& attrs, Tensors inputs) : inputs_(inputs) {
    std::vector<TensorType> types;
    // Storage may be wider than the types, of which only the shapes count here.
    for (const Tensor& input : inputs) {
      types.push_back(input.type());
      if (is_float(types.back().dtype)) types.back().dtype = DType::kFloat64;
    }
    layer_ = linear_attention(attrs, types);
    length_ = layer_.length.value();
    keys_ = layer_.key_size.value();
    values_ = layer_.value_size.value();
  }

  std::vector<Tensor> run(Types outputs) {
    const std::int64_t batch = layer_.batch.value(), heads = layer_.heads(),
                       read = layer_.out_heads();
    const std::int64_t size = keys_ * values_;
    const std::int64_t states = layer_.states.value();
    state_.assign(static_cast<std::size_t>(states * heads * size), 0.0);
    out_.assign(static_cast<std::size_t>(batch * length_ * read * values_), 0.0);
    if (layer_.inputs.state) state_ = inputs_[*layer_.inputs.state].to_doubles();
    if (layer_.is_ragged())
      run_ragged();
    else
      for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t t = 0; t < length_; ++t)
          take(b * length_ + t, state_.data() + b * heads * size);
    return {
        Tensor::from_doubles(outputs[0].dtype, {batch, length_, read, values_}, out_),
        Tensor::from_doubles(outputs[1].dtype, {states, heads, keys_, values_}, state_),
    };
  }

 private:
  /// A token, by the states of its sequence.
  void take(std::int64_t token, double* states) {
    const std::int64_t size = keys_ * values_, read = layer_.out_heads();
    for (std::int64_t h = 0; h < layer_.heads(); ++h) update(token, h, states + h * size);
    for (std::int64_t h = 0; h < read; ++h)
      read_out(token, h, states + layer_.state_of(h) * size,
               out_.data() + (token * read + h) * values_);
  }

  void run_ragged() {
    const std::int64_t size = layer_.heads() * keys_ * values_;
    const auto number = [&](std::size_t input, std::int64_t i) {
      return static_cast<std::int64_t>(inputs_[input].at(i));
    };
    const auto slot = [&](std::int64_t index) {
      if (index >= layer_.states.value())
        invalid(fmt::format("slot {} of a state is beyond the {} there are", index,
                            layer_.states.to_string()));
      return state_.begin() + index * size;
    };
    for (std::int64_t s = 0; s < layer_.sequences.value(); ++s) {
      const std::int64_t first = number(*layer_.inputs.starts, s),
                         end = number(*layer_.inputs.starts, s + 1);
      if (first < 0 || end > length_)
        invalid(fmt::format("tokens {} to {} of a sequence are not among {}", first, end, length_));
      std::vector<double> own(static_cast<std::size_t>(size), 0.0);
      for (std::int64_t t = first; t < end; ++t) {
        if (const std::int64_t from = number(*layer_.inputs.sources, t); t == first && from >= 0)
          std::copy_n(slot(from), size, own.begin());
        take(t, own.data());
        if (const std::int64_t to = number(*layer_.inputs.slots, t); to >= 0)
          std::copy_n(own.begin(), size, slot(to));
      }
    }
  }

  double key(std::int64_t token, std::int64_t h, std::int64_t i) const {
    return inputs_[1].at((token * layer_.key_heads + layer_.key_of(h)) * keys_ + i);
  }

  void update(std::int64_t token, std::int64_t h, double* state) const {
    const LinearAttentionInputs& which = layer_.inputs;
    const std::int64_t head = token * layer_.heads() + h;
    const Tensor& value = inputs_[2];
    const std::int64_t first = (token * layer_.value_heads + layer_.value_of(h)) * values_;
    std::vector<double> held(static_cast<std::size_t>(values_), 0.0);
    const auto hold = [&](const auto& factor) {
      for (std::int64_t i = 0; i < keys_; ++i)
        for (std::int64_t j = 0; j < values_; ++j)
          held[static_cast<std::size_t>(j)] += factor(i) * state[i * values_ + j];
    };
    const auto erase = [&](std::int64_t part, std::int64_t i) {
      return inputs_[*which.erase].at((head * 2 + part) * keys_ + i);
    };
    if (which.erase) hold([&](std::int64_t i) { return erase(0, i); });
    if (which.decay)
      for (std::int64_t i = 0; i < keys_; ++i) {
        const double factor =
            std::exp(inputs_[*which.decay].at(layer_.by_channel ? head * keys_ + i : head));
        for (std::int64_t j = 0; j < values_; ++j) state[i * values_ + j] *= factor;
      }
    if (which.beta) hold([&](std::int64_t i) { return key(token, h, i); });
    for (std::int64_t i = 0; i < keys_; ++i)
      for (std::int64_t j = 0; j < values_; ++j) {
        double& element = state[i * values_ + j];
        const double before = held[static_cast<std::size_t>(j)];
        double written = value.at(first + j);
        if (which.beta) written = inputs_[*which.beta].at(head) * (written - before);
        if (which.erase) element += erase(1, i) * before;
        element += key(token, h, i) * written;
      }
  }

  void read_out(std::int64_t token, std::int64_t h, const double* state, double* out) const {
    const std::int64_t query = (token * layer_.query_heads + layer_.query_of(h)) * keys_;
    for (std::int64_t i = 0; i < keys_; ++i)
      for (std::int64_t j = 0; j < values_; ++j)
        out[j] += layer_.scale * inputs_[0].at(query + i) * state[i * values_ + j];
  }

  Tensors inputs_;
  LinearAttention layer_;
  std::int64_t length_ = 0, keys_ = 0, values_ = 0;
  std::vector<double> state_, out_;
};

// ---- as a loop over tokens

class AsLoop {
 public:
  AsLoop(GraphBuilder& builder, const Node& node, std::span<const ValueId> inputs)
      : b_(builder), inputs_(inputs), body_("tokens") {
    std::vector<TensorType> types;
    for (const ValueId input : inputs) types.push_back(builder.type(input));
    layer_ = linear_attention(node.attrs, types);
    if (layer_.is_ragged())
      throw Error(ErrorCode::kUnsupported,
                  "a LinearAttention of a ragged batch needs a kernel, and is no loop over tokens");
    results_ = infer_linear_attention(node.attrs, types);
    wide_ = types[0].dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  }

  std::vector<ValueId> run() {
    const Dim heads(layer_.heads());
    const Shape state_shape{layer_.batch, heads, layer_.key_size, layer_.value_size};
    // Tokens are the first dimension of what the iterations write.
    const Shape read{layer_.batch, Dim(layer_.out_heads()), layer_.value_size};
    Shape all = read;
    all.insert(all.begin(), layer_.length);
    const auto zeros = [&](const Shape& shape) {
      return b_.add("Expand", {b_.scalar(wide_, 0)}, {{"shape", shape}});
    };
    const ValueId first =
        layer_.inputs.state ? cast(b_, inputs_[*layer_.inputs.state], wide_) : zeros(state_shape);
    for (const auto& [symbol, range] : b_.ranges()) body_.range(symbol, range);
    const ValueId index = body_.input("token", {DType::kInt64, {}});
    const ValueId state = body_.input("state", {wide_, state_shape});
    const ValueId collected = body_.input("collected", {wide_, all});
    std::vector<ValueId> given{b_.constant(Tensor::from_ints(DType::kInt64, {}, {{0}})), first,
                               zeros(all)};
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (layer_.inputs.state == i) continue;
      const ValueId sequence = body_.input({}, b_.type(inputs_[i]));
      given.push_back(inputs_[i]);
      now_.push_back(
          cast(body_, body_.add("Gather", {sequence, index}, {{"axis", std::int64_t{1}}}), wide_));
    }
    const ValueId after = updated(state);
    body_.output("state", after);
    body_.output("collected", written(collected, read_out(after), index, read));
    const std::vector<ValueId> last = b_.add_multi(
        "While", given, {{"trips", std::vector<Dim>{layer_.length}}, {"states", std::int64_t{2}}},
        std::make_shared<const Graph>(body_.finish()));
    const ValueId out = b_.add("Transpose", {last[1]}, {{"perm", Ints{1, 0, 2, 3}}});
    return {cast(b_, b_.add("Mul", {out, b_.scalar(wide_, layer_.scale)}), results_[0].dtype),
            cast(b_, last[0], results_[1].dtype)};
  }

 private:
  static ValueId cast(GraphBuilder& builder, ValueId value, DType to) {
    return builder.type(value).dtype == to ? value : builder.add("Cast", {value}, {{"to", to}});
  }
  ValueId reshape(ValueId value, Shape shape) {
    if (body_.type(value).shape == shape) return value;
    return body_.add("Reshape", {value}, {{"shape", std::move(shape)}});
  }
  /// [batch, count, size] as [batch, heads, rows, columns]; consecutive heads share.
  ValueId of_states(ValueId value, const Dim& rows, const Dim& columns) {
    const Shape shape = body_.type(value).shape;
    const Dim heads(layer_.heads());
    if (shape[1] != heads) {
      const Dim group(layer_.heads() / shape[1].value());
      value = reshape(value, {shape[0], shape[1], Dim(1), shape[2]});
      value = body_.add("Expand", {value}, {{"shape", Shape{shape[0], shape[1], group, shape[2]}}});
    }
    return reshape(value, {shape[0], heads, rows, columns});
  }
  ValueId column(ValueId value) { return of_states(value, layer_.key_size, Dim(1)); }
  ValueId row(ValueId value) { return of_states(value, Dim(1), layer_.value_size); }
  ValueId by_head(ValueId value) {
    return reshape(value, {layer_.batch, Dim(layer_.heads()), Dim(1), Dim(1)});
  }
  /// column' state, [batch, heads, 1, value_size].
  ValueId held(ValueId state, ValueId column) {
    return body_.add("ReduceSum", {body_.add("Mul", {state, column})},
                     {{"axes", Ints{2}}, {"keepdims", std::int64_t{1}}});
  }

  ValueId updated(ValueId state) {
    const LinearAttentionInputs& which = layer_.inputs;
    const ValueId key = column(now_[1]);
    ValueId value = row(now_[2]), erased;
    if (which.erase) {
      const auto part = [&](const Dim& begin) {
        const Shape shape{layer_.batch, Dim(layer_.heads()), layer_.key_size};
        return column(body_.add("Slice", {now_[*which.erase]},
                                {{"starts", std::vector<Dim>{Dim(0), Dim(0), begin}},
                                 {"steps", Ints{1, 1, 1}},
                                 {"shape", shape}}));
      };
      erased = body_.add("Mul", {part(layer_.key_size), held(state, part(Dim(0)))});
    }
    if (which.decay) {
      const ValueId factors = body_.add("Exp", {now_[*which.decay]});
      state = body_.add("Mul", {state, layer_.by_channel ? column(factors) : by_head(factors)});
    }
    if (which.beta)
      value = body_.add("Mul",
                        {body_.add("Sub", {value, held(state, key)}), by_head(now_[*which.beta])});
    if (which.erase) state = body_.add("Add", {state, erased});
    return body_.add("Add", {state, body_.add("Mul", {key, value})});
  }

  ValueId read_out(ValueId state) {
    const std::int64_t group = layer_.out_heads() / layer_.heads();
    const ValueId query =
        group > 1
            ? reshape(now_[0], {layer_.batch, Dim(layer_.heads()), Dim(group), layer_.key_size})
            : of_states(now_[0], Dim(1), layer_.key_size);
    return reshape(body_.add("MatMul", {query, state}),
                   {layer_.batch, Dim(layer_.out_heads()), layer_.value_size});
  }

  /// `all` with `value` as its element `index`.
  ValueId written(ValueId all, ValueId value, ValueId index, const Shape& shape) {
    std::vector<ValueId> operands{all, value, index};
    for (std::size_t d = 0; d < shape.size(); ++d) {
      Shape along(shape.size() - d, Dim(1));
      along.front() = shape[d];
      operands.push_back(body_.add("Iota", {}, {{"shape", along}}));
    }
    return body_.add("Scatter", operands);
  }

  GraphBuilder& b_;
  std::span<const ValueId> inputs_;
  GraphBuilder body_;
  LinearAttention layer_;
  std::vector<TensorType> results_;
  DType wide_ = DType::kFloat32;
  std::vector<ValueId> now_;  // the inputs' elements of the token
};

}  // namespace

std::vector<OpDef> linear_attention_ops() {
  OpDef op;
  op.name = "LinearAttention";
  op.kind = OpKind::kLibrary;
  op.kernel = "linear_attention";
  op.min_inputs = 3;
  op.max_inputs = 10;
  op.attrs = {{"rule", AttrKind::kString, std::nullopt},
              {"scale", AttrKind::kFloat, std::nullopt},
              {"decay", AttrKind::kInt, Attr(std::int64_t{0})},
              {"state", AttrKind::kInt, Attr(std::int64_t{0})},
              {"ragged", AttrKind::kInt, Attr(std::int64_t{0})}};
  op.infer = infer_linear_attention;
  // Behind query, key and value: exponents, and what their products add up to.
  op.numerics.operands = {Rounding::kRelative, Rounding::kRelative, Rounding::kRelative,
                          Rounding::kExponent};
  op.evaluate = [](const Attrs& attrs, Tensors inputs, Types outputs) {
    return Evaluation(attrs, inputs).run(outputs);
  };
  op.detail =
      CompositeDef{[](GraphBuilder& builder, const Node& node, std::span<const ValueId> inputs) {
        return AsLoop(builder, node, inputs).run();
      }};
  return {op};
}

}  // namespace sinter::ir::ops
