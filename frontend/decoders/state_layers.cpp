// SPDX-License-Identifier: Apache-2.0
// Layers of decoders whose state has a fixed size.
#include <cmath>
#include <initializer_list>

#include <fmt/format.h>

#include "frontend/decoders/layer_writer.h"

namespace sinter::frontend {

using ir::Dim;
using ir::Ints;
using ir::Shape;
using ir::ValueId;

namespace {

constexpr DType kWide = DType::kFloat32;  // of gates, steps and states

}  // namespace

std::int64_t LayerWriter::conv_channels() const {
  const MixerConfig& m = c_.mixer;
  switch (m.mixer) {
    case Mixer::kShortConv: return c_.hidden;
    case Mixer::kMamba: return m.values();
    default: return m.values() + 2 * m.keys();
  }
}

LayerWriter::States LayerWriter::declare_states(std::size_t layer) {
  const MixerConfig& m = c_.mixer;
  States states;
  states.rows = w_.b.input(fmt::format("past_conv_{}", layer),
                           {w_.type(), {Dim(1), Dim(conv_channels()), Dim(m.taps - 1)}});
  if (m.mixer != Mixer::kShortConv)
    states.state = w_.b.input(fmt::format("past_state_{}", layer),
                              {kWide, {Dim(1), Dim(m.heads), Dim(m.key_size), Dim(m.value_size)}});
  return states;
}

ValueId LayerWriter::mixed(ValueId x, std::size_t layer, States& states) {
  switch (c_.mixer.mixer) {
    case Mixer::kNone: break;
    case Mixer::kShortConv: return short_conv(x, layer, states);
    case Mixer::kMamba: return mamba(x, layer, states);
    case Mixer::kMamba2: return mamba2(x, layer, states);
    case Mixer::kGatedDelta: return gated_delta(x, layer, states);
  }
  return x;
}

/// A tensor of numbers, f32, whose dimensions of size 1 files have as they like.
ValueId LayerWriter::numbers(std::string_view what, std::size_t layer, const Shape& shape) {
  const std::string name = weights_.name(what, layer);
  Ints wanted, sizes;
  for (const Dim& dim : shape) wanted.push_back(dim.value());
  const auto without_ones = [](const Ints& all) {
    Ints some;
    for (const std::int64_t each : all)
      if (each != 1) some.push_back(each);
    return some;
  };
  const Ints own = weights_.has(name) ? weights_.shape(name) : wanted;
  const ir::Tensor tensor =
      weights_.take_plain(name, without_ones(own) == without_ones(wanted) ? own : wanted);
  return w_.cast(w_.b.constant(tensor.reshaped(wanted), name), kWide);
}

/// Each channel of x [1, sequence, channels] by itself, along the rows kept of earlier tokens.
ValueId LayerWriter::causal_conv(ValueId x, std::string_view what, std::size_t layer,
                                 ValueId& rows) {
  const std::int64_t channels = conv_channels(), kept = c_.mixer.taps - 1;
  const Dim sequence = w_.shape(x)[1];
  const ValueId both =
      w_.b.add("Concat", {rows, w_.transpose(x, {0, 2, 1})}, {{"axis", std::int64_t{2}}});
  const std::string stem(what);
  std::vector<ValueId> inputs{
      both,
      w_.cast(numbers(stem + ".weight", layer, {Dim(channels), Dim(1), Dim(kept + 1)}), w_.type())};
  if (const std::string bias = weights_.name(stem + ".bias", layer); weights_.has(bias))
    inputs.push_back(vector(bias, channels));
  const Ints one{1}, zero{0};
  const ValueId y = w_.b.add("Conv", std::move(inputs),
                             {{"strides", one},
                              {"dilations", one},
                              {"pads_begin", zero},
                              {"pads_end", zero},
                              {"group", channels}});
  rows = w_.b.add("Slice", {both},
                  {{"starts", std::vector<Dim>{Dim(0), Dim(0), sequence}},
                   {"steps", Ints{1, 1, 1}},
                   {"shape", Shape{Dim(1), Dim(channels), Dim(kept)}}});
  return w_.transpose(y, {0, 2, 1});
}

/// A, which is negative.
ValueId LayerWriter::negative_rates(std::size_t layer, const Shape& shape) {
  const ValueId a = numbers("ssm_a", layer, shape);
  return c_.mixer.has_logarithms ? w_.b.add("Neg", {w_.b.add("Exp", {a})}) : a;
}

ValueId LayerWriter::by_states(ValueId x, std::int64_t heads, std::int64_t size) {
  const Shape& shape = w_.shape(x);
  return w_.reshape(x, {shape[0], shape[1], Dim(heads), Dim(size)});
}

/// Of x, f32 [1, sequence, heads * size], and of its gate: each of `parts` of equal size has a
/// norm. Mamba-2 normalises what has been scaled by the gate; a delta rule scales what is normal.
ValueId LayerWriter::gated_norm(ValueId x, ValueId gate, std::size_t layer, std::int64_t parts) {
  const Shape all = w_.shape(x);
  const std::int64_t size = c_.mixer.values() / parts;
  const bool is_delta = c_.mixer.mixer == Mixer::kGatedDelta;
  const ValueId factor = w_.b.add("Silu", {w_.cast(gate, kWide)});
  if (!is_delta) x = w_.add("Mul", x, factor);
  // A delta rule's heads share their weights.
  const std::int64_t rows = is_delta ? 1 : parts;
  // Folders have the parts' in one row.
  const std::string name = weights_.name("ssm_norm.weight", layer);
  const bool is_row = weights_.has(name) && weights_.shape(name).size() == 1;
  const ValueId weights =
      w_.reshape(numbers("ssm_norm.weight", layer,
                         is_row ? Shape{Dim(rows * size)} : Shape{Dim(rows), Dim(size)}),
                 {Dim(rows), Dim(size)});
  const bool is_shared = rows == 1;
  const ValueId own =
      is_shared ? w_.reshape(weights, {Dim(size)})
                : w_.b.constant(ir::Tensor::from_doubles(
                      kWide, {size}, std::vector<double>(static_cast<std::size_t>(size), 1)));
  ValueId y = w_.b.add("RmsNorm", {by_states(x, parts, size), own},
                       {{"axis", std::int64_t{3}}, {"epsilon", c_.epsilon}});
  if (!is_shared) y = w_.add("Mul", y, weights);
  y = w_.reshape(y, all);
  return w_.cast(is_delta ? w_.add("Mul", y, factor) : y, w_.type());
}

/// LFM2: values are scaled in front of the convolution and behind it.
ValueId LayerWriter::short_conv(ValueId x, std::size_t layer, States& states) {
  const std::int64_t size = c_.hidden;
  const ValueId all = linear(x, "shortconv.in_proj", layer, 3 * size, size, {});
  const auto third = [&](std::int64_t i) { return w_.part(all, 2, i * size, size); };
  const ValueId y =
      causal_conv(w_.add("Mul", third(0), third(2)), "shortconv.conv", layer, states.rows);
  return linear(w_.add("Mul", third(1), y), "shortconv.out_proj", layer, size, size, {});
}

ValueId LayerWriter::mamba(ValueId x, std::size_t layer, States& states) {
  const MixerConfig& m = c_.mixer;
  const std::int64_t inner = m.heads;
  const Dim sequence = w_.shape(x)[1];
  const ValueId both = linear(x, "ssm_in", layer, 2 * inner, c_.hidden, m.has_bias);
  const ValueId gate = w_.part(both, 2, inner, inner);
  const ValueId own =
      w_.b.add("Silu", {causal_conv(w_.part(both, 2, 0, inner), "ssm_conv1d", layer, states.rows)});
  const ValueId few = linear(own, "ssm_x", layer, m.step_rank + 2 * m.key_size, inner, false);
  const auto operand = [&](std::int64_t first, std::int64_t size) {
    const ValueId part = w_.part(few, 2, first, size);
    if (!m.norms_operands) return part;
    return w_.b.add("RmsNorm", {part, w_.ones(size)},
                    {{"axis", std::int64_t{2}}, {"epsilon", m.operand_epsilon}});
  };
  const ValueId step = w_.b.add(
      "Softplus",
      {w_.cast(linear(operand(0, m.step_rank), "ssm_dt", layer, inner, m.step_rank, true), kWide)});
  const ValueId key = operand(m.step_rank, m.key_size),
                query = operand(m.step_rank + m.key_size, m.key_size);
  const Dim heads(inner), one(1);
  const ValueId decay = w_.add("Mul", w_.reshape(step, {one, sequence, heads, one}),
                               negative_rates(layer, {one, one, heads, Dim(m.key_size)}));
  const ValueId wide = w_.cast(own, kWide);
  const auto value = w_.cast(w_.add("Mul", wide, step), w_.type());
  const auto results =
      w_.b.add_multi("LinearAttention",
                     {by_states(query, 1, m.key_size), by_states(key, 1, m.key_size),
                      by_states(value, inner, 1), decay, states.state},
                     {{"rule", std::string("linear")},
                      {"scale", 1.0},
                      {"decay", std::int64_t{1}},
                      {"state", std::int64_t{1}}});
  states.state = results[1];
  ValueId y = w_.reshape(w_.cast(results[0], kWide), {one, sequence, heads});
  y = w_.add("Add", y, w_.add("Mul", wide, numbers("ssm_d", layer, {heads})));
  y = w_.add("Mul", y, w_.b.add("Silu", {w_.cast(gate, kWide)}));
  return linear(w_.cast(y, w_.type()), "ssm_out", layer, c_.hidden, inner, m.has_bias);
}

ValueId LayerWriter::mamba2(ValueId x, std::size_t layer, States& states) {
  const MixerConfig& m = c_.mixer;
  const std::int64_t values = m.values(), keys = m.keys(), channels = conv_channels();
  const ValueId all =
      linear(x, "ssm_in", layer, values + channels + m.heads, c_.hidden, m.has_bias);
  const ValueId gate = w_.part(all, 2, 0, values);
  const ValueId own = w_.b.add(
      "Silu", {causal_conv(w_.part(all, 2, values, channels), "ssm_conv1d", layer, states.rows)});
  ValueId step = w_.add("Add", w_.cast(w_.part(all, 2, values + channels, m.heads), kWide),
                        numbers("ssm_dt.bias", layer, {Dim(m.heads)}));
  step = w_.b.add("Softplus", {step});
  if (m.least_step > 0) step = w_.add("Max", step, w_.b.scalar(kWide, m.least_step));
  if (m.most_step > 0) step = w_.add("Min", step, w_.b.scalar(kWide, m.most_step));
  const ValueId decay = w_.add("Mul", step, negative_rates(layer, {Dim(m.heads)}));
  const Shape by_head{Dim(1), w_.shape(x)[1], Dim(m.heads), Dim(1)};
  const ValueId wide = w_.cast(by_states(w_.part(own, 2, 0, values), m.heads, m.value_size), kWide);
  const ValueId value = w_.cast(w_.add("Mul", wide, w_.reshape(step, by_head)), w_.type());
  const ValueId key = by_states(w_.part(own, 2, values, keys), m.key_heads, m.key_size),
                query = by_states(w_.part(own, 2, values + keys, keys), m.key_heads, m.key_size);
  const auto results = w_.b.add_multi("LinearAttention", {query, key, value, decay, states.state},
                                      {{"rule", std::string("linear")},
                                       {"scale", 1.0},
                                       {"decay", std::int64_t{1}},
                                       {"state", std::int64_t{1}}});
  states.state = results[1];
  ValueId y = w_.add("Add", w_.cast(results[0], kWide),
                     w_.add("Mul", wide, numbers("ssm_d", layer, {Dim(m.heads), Dim(1)})));
  y = w_.reshape(y, w_.shape(gate));
  y = gated_norm(y, gate, layer, m.norms_groups ? m.key_heads : 1);
  return linear(y, "ssm_out", layer, c_.hidden, values, m.has_bias);
}

struct LayerWriter::DeltaParts {
  ValueId mixed;       // queries, keys, values [1, sequence, ..]
  ValueId gate;        // [1, sequence, values]
  ValueId beta, rate;  // [1, sequence, heads]
};

/// Files have one matrix for all, whose rows are [key head, (query, key, values, gates)], or two;
/// and one whose rows are [key head, (betas, rates)], or two.
LayerWriter::DeltaParts LayerWriter::delta_parts(ValueId x, std::size_t layer) {
  const MixerConfig& m = c_.mixer;
  const std::int64_t keys = m.keys(), values = m.values(), mixed = 2 * keys + values;
  const std::int64_t group = m.heads / m.key_heads;
  // The order in which rows [key head, part, size] have each part of all heads in one place.
  const auto parts_first = [&](std::initializer_list<std::int64_t> sizes) {
    Ints order;
    std::int64_t pitch = 0, first = 0;
    for (const std::int64_t size : sizes) pitch += size;
    for (const std::int64_t size : sizes) {
      for (std::int64_t head = 0; head < m.key_heads; ++head)
        for (std::int64_t i = 0; i < size; ++i) order.push_back(head * pitch + first + i);
      first += size;
    }
    return order;
  };
  DeltaParts parts;
  if (weights_.has(weights_.name("ssm_in.weight", layer))) {
    const std::int64_t size = group * m.value_size;
    const ValueId all = linear(x, "ssm_in", layer, mixed + values, c_.hidden, false,
                               parts_first({m.key_size, m.key_size, size, size}));
    parts.mixed = w_.part(all, 2, 0, mixed);
    parts.gate = w_.part(all, 2, mixed, values);
  } else {
    parts.mixed = linear(x, "attn_qkv", layer, mixed, c_.hidden, false);
    parts.gate = linear(x, "attn_gate", layer, values, c_.hidden, false);
  }
  if (weights_.has(weights_.name("ssm_ba.weight", layer))) {
    const ValueId both =
        linear(x, "ssm_ba", layer, 2 * m.heads, c_.hidden, false, parts_first({group, group}));
    parts.beta = w_.part(both, 2, 0, m.heads);
    parts.rate = w_.part(both, 2, m.heads, m.heads);
  } else {
    parts.beta = linear(x, "ssm_beta", layer, m.heads, c_.hidden, false);
    parts.rate = linear(x, "ssm_alpha", layer, m.heads, c_.hidden, false);
  }
  return parts;
}

ValueId LayerWriter::gated_delta(ValueId x, std::size_t layer, States& states) {
  const MixerConfig& m = c_.mixer;
  const std::int64_t keys = m.keys();
  const DeltaParts parts = delta_parts(x, layer);
  const ValueId own =
      w_.b.add("Silu", {causal_conv(parts.mixed, "ssm_conv1d", layer, states.rows)});
  const auto unit = [&](std::int64_t first) {
    constexpr double kLeast = 1e-6;  // of a length's square
    const ValueId heads =
        w_.cast(by_states(w_.part(own, 2, first, keys), m.key_heads, m.key_size), kWide);
    const ValueId square = w_.b.add("ReduceSum", {w_.add("Mul", heads, heads)},
                                    {{"axes", Ints{3}}, {"keepdims", std::int64_t{1}}});
    const ValueId factor = w_.b.add("Rsqrt", {w_.add("Add", square, w_.b.scalar(kWide, kLeast))});
    return w_.cast(w_.add("Mul", heads, factor), w_.type());
  };
  const ValueId query = unit(0), key = unit(keys),
                value = by_states(w_.part(own, 2, 2 * keys, m.values()), m.heads, m.value_size);
  const ValueId beta = w_.b.add("Sigmoid", {w_.cast(parts.beta, kWide)});
  const ValueId step = w_.b.add(
      "Softplus",
      {w_.add("Add", w_.cast(parts.rate, kWide), numbers("ssm_dt.bias", layer, {Dim(m.heads)}))});
  const ValueId decay = w_.add("Mul", step, negative_rates(layer, {Dim(m.heads)}));
  const auto results =
      w_.b.add_multi("LinearAttention", {query, key, value, decay, beta, states.state},
                     {{"rule", std::string("delta")},
                      {"scale", 1 / std::sqrt(static_cast<double>(m.key_size))},
                      {"decay", std::int64_t{1}},
                      {"state", std::int64_t{1}}});
  states.state = results[1];
  const ValueId y = w_.reshape(w_.cast(results[0], kWide), w_.shape(parts.gate));
  return linear(gated_norm(y, parts.gate, layer, m.heads), "ssm_out", layer, c_.hidden, m.values(),
                false);
}

}  // namespace sinter::frontend
