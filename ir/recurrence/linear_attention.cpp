// SPDX-License-Identifier: Apache-2.0
#include "ir/recurrence/linear_attention.h"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/dim/dim_mismatch.h"

namespace sinter::ir {
namespace {

[[noreturn]] void invalid(const std::string& message) {
  throw Error(ErrorCode::kInvalidModel, message);
}

std::string list_types(Types types) {
  std::string list;
  for (const TensorType& type : types) list += (list.empty() ? "" : ", ") + to_string(type);
  return list;
}

constexpr std::array<std::string_view, 3> kRules = {"linear", "delta", "general_delta"};

bool flag(const Attrs& attrs, const char* name) {
  const std::int64_t given = attrs.get_int(name);
  if (given != 0 && given != 1) invalid(fmt::format("{} is 0 or 1, not {}", name, given));
  return given != 0;
}

std::int64_t heads_of(Types inputs, std::size_t input, const char* name) {
  const Dim& heads = inputs[input].shape[2];
  if (!heads.is_constant() || heads.value() < 1)
    invalid(fmt::format("the number of heads of the {} must be a positive constant, found {}", name,
                        list_types(inputs)));
  return heads.value();
}

void require_shape(Types inputs, std::size_t input, const Shape& wanted, const char* name) {
  require_equal(inputs[input].shape, wanted, [&] {
    return fmt::format("the {} must be {}, found {}", name, to_string(wanted), list_types(inputs));
  });
}

void require_divides(std::int64_t a, std::int64_t b, const char* what) {
  if (std::max(a, b) % std::min(a, b) != 0)
    invalid(fmt::format("{}: {} and {}; the lesser must divide the greater", what, a, b));
}

void read_ragged(Types inputs, LinearAttention& layer) {
  const LinearAttentionInputs& which = layer.inputs;
  for (const std::size_t i : {*which.starts, *which.sources, *which.slots})
    if (inputs[i].dtype != DType::kInt32 || inputs[i].shape.size() != 1)
      invalid("starts, sources and slots are i32 of one dimension, found " + list_types(inputs));
  if (inputs[*which.state].shape.size() != 4)
    invalid("the states must be [slots, heads, key_size, value_size], found " + list_types(inputs));
  require_shape(inputs, 1, {Dim(1), layer.length, Dim(layer.key_heads), layer.key_size}, "key");
  require_shape(inputs, *which.sources, {layer.length}, "sources");
  require_shape(inputs, *which.slots, {layer.length}, "slots");
  layer.sequences = inputs[*which.starts].shape[0] - Dim(1);
  layer.states = inputs[*which.state].shape[0];
}

}  // namespace

std::string_view to_string(UpdateRule rule) { return kRules[static_cast<std::size_t>(rule)]; }

LinearAttentionInputs linear_attention_inputs(const Attrs& attrs) {
  const std::string& rule = attrs.get_string("rule");
  if (std::ranges::find(kRules, rule) == kRules.end())
    invalid(fmt::format("rule is linear, delta or general_delta, not {}", rule));
  LinearAttentionInputs result;
  if (flag(attrs, "decay")) result.decay = result.count++;
  if (rule == to_string(UpdateRule::kDelta)) result.beta = result.count++;
  if (rule == to_string(UpdateRule::kGeneralDelta)) result.erase = result.count++;
  if (flag(attrs, "state")) result.state = result.count++;
  if (attrs.has("ragged") && flag(attrs, "ragged")) {
    if (!result.state) invalid("a ragged batch has its states in slots: state is 1");
    result.starts = result.count++;
    result.sources = result.count++;
    result.slots = result.count++;
  }
  return result;
}

LinearAttention linear_attention(const Attrs& attrs, Types inputs) {
  LinearAttention result;
  result.inputs = linear_attention_inputs(attrs);
  const LinearAttentionInputs& which = result.inputs;
  if (inputs.size() != which.count)
    invalid(fmt::format("takes {} inputs with these attributes, found {}", which.count,
                        list_types(inputs)));
  if (inputs[0].dtype != inputs[1].dtype || inputs[0].dtype != inputs[2].dtype)
    invalid("query, key and value must share one element type, found " + list_types(inputs));
  for (const TensorType& input : inputs.first(which.starts.value_or(which.count)))
    if (!is_float(input.dtype) || size_of(input.dtype) < 2)
      invalid("needs floats of 16 bits or more, found " + list_types(inputs));
  for (std::size_t i = 0; i < 3; ++i)
    if (inputs[i].shape.size() != 4)
      invalid("needs query, key and value [batch, length, heads, size], found " +
              list_types(inputs));
  const auto rule = std::ranges::find(kRules, attrs.get_string("rule"));
  result.rule = static_cast<UpdateRule>(rule - kRules.begin());
  result.scale = attrs.get_float("scale");
  const Shape& key = inputs[1].shape;
  result.batch = key[0];
  result.length = key[1];
  result.key_size = key[3];
  result.value_size = inputs[2].shape[3];
  result.query_heads = heads_of(inputs, 0, "query");
  result.key_heads = heads_of(inputs, 1, "key");
  result.value_heads = heads_of(inputs, 2, "value");
  require_divides(result.key_heads, result.value_heads, "heads of keys and values");
  require_divides(result.query_heads, result.heads(), "heads of queries and states");
  const Dim heads(result.heads());
  require_shape(inputs, 0, {key[0], key[1], Dim(result.query_heads), key[3]}, "query");
  require_shape(inputs, 2, {key[0], key[1], Dim(result.value_heads), result.value_size}, "value");
  if (which.decay) {
    result.by_channel = inputs[*which.decay].shape.size() == 4;
    Shape decay{key[0], key[1], heads};
    if (result.by_channel) decay.push_back(key[3]);
    require_shape(inputs, *which.decay, decay, "decay");
  }
  if (which.beta) require_shape(inputs, *which.beta, {key[0], key[1], heads}, "beta");
  if (which.erase)
    require_shape(inputs, *which.erase, {key[0], key[1], heads, key[3] * Dim(2)}, "erase");
  result.sequences = result.states = key[0];
  if (which.starts) read_ragged(inputs, result);
  if (which.state)
    require_shape(inputs, *which.state, {result.states, heads, key[3], result.value_size}, "state");
  return result;
}

}  // namespace sinter::ir
