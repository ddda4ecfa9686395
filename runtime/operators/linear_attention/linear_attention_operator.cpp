// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/operators/linear_attention/linear_attention_def.h"

namespace sinter::plan {
namespace {

bool divides(std::int64_t a, std::int64_t b) {
  return a > 0 && b > 0 && std::max(a, b) % std::min(a, b) == 0;
}

std::string refuse(const OperatorSizes& sizes) {
  const std::int64_t heads = sizes["heads"], batch = sizes["batch"], length = sizes["length"],
                     keys = sizes["key_size"];
  if (!divides(sizes["key_heads"], sizes["value_heads"]) ||
      heads != std::max(sizes["key_heads"], sizes["value_heads"]))
    return "its states are not one for each head of keys or values";
  if (!divides(sizes["query_heads"], heads) ||
      sizes["out_heads"] != std::max(sizes["query_heads"], heads))
    return "its outputs are not one for each head of queries or states";
  const auto is_shape = [&](bool is_there, const char* first, std::int64_t wanted_first,
                            const char* second, std::int64_t wanted_second, const char* third,
                            std::int64_t wanted_third, const char* last, std::int64_t wanted) {
    if (!is_there) wanted_first = wanted_second = wanted_third = wanted = 0;
    return sizes[first] == wanted_first && sizes[second] == wanted_second &&
           sizes[third] == wanted_third && sizes[last] == wanted;
  };
  const std::int64_t rule = sizes["rule"], decay = sizes["decay"];
  if (!is_shape(decay != 0, "decay_batch", batch, "decay_length", length, "decay_heads", heads,
                "decay_size", decay == 2 ? keys : 1))
    return "its decays are not those of its states";
  if (!is_shape(rule == 1, "beta_batch", batch, "beta_length", length, "beta_heads", heads,
                "beta_size", 1))
    return "its betas are not those of its states";
  if (!is_shape(rule == 2, "erase_batch", batch, "erase_length", length, "erase_heads", heads,
                "erase_size", 2 * keys))
    return "what it erases is not two keys for each state";
  const auto states = sizes.find("states");  // of a ragged batch
  if (states ? sizes["state"] != 1 || batch != 1 || sizes["last"] != *states
             : sizes["last"] != batch)
    return "its last states are not those of its sequences";
  if (!is_shape(sizes["state"] == 1, states ? "states" : "state_batch", states.value_or(batch),
                "state_heads", heads, "state_keys", keys, "state_values", sizes["value_size"]))
    return "its first states are not those of its last";
  return "";
}

}  // namespace

OperatorDef linear_attention_def(bool is_ragged) {
  static const std::vector<DType> floats = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
  OperatorDef def = {
      .name = is_ragged ? "ragged_linear_attention" : "linear_attention",
      .inputs = {{"queries", floats, "batch length query_heads key_size"},
                 {"keys", {}, "batch length key_heads key_size"},
                 {"values", {}, "batch length value_heads value_size"},
                 {"decays", floats, "decay_batch decay_length decay_heads decay_size"},
                 {"betas", floats, "beta_batch beta_length beta_heads beta_size"},
                 {"erased", floats, "erase_batch erase_length erase_heads erase_size"},
                 {"states", floats,
                  is_ragged ? "states state_heads state_keys state_values"
                            : "state_batch state_heads state_keys state_values"}},
      .outputs = {{"outputs", {}, "batch length out_heads value_size"},
                  {"new states", floats, "last heads key_size value_size", OperandMemory::kAny, 6}},
      .attributes = {{.name = "rule", .min = 0, .max = 2},
                     {.name = "decay", .min = 0, .max = 2},
                     {.name = "state", .min = 0, .max = 1},
                     {.name = "scale", .is_float = true}},
      .limits = {{"key_size", 0, 1 << 16},
                 {"value_size", 0, 1 << 16},
                 {"query_heads", 1, 1 << 20},
                 {"key_heads", 1, 1 << 20},
                 {"value_heads", 1, 1 << 20}},
      .refuse = refuse,
  };
  if (is_ragged) {
    def.inputs.push_back({"starts", {DType::kInt32}, "starts"});
    def.limits.push_back({"starts", 1, 1 << 20});
    def.inputs.push_back({"sources", {DType::kInt32}, "length"});
    def.inputs.push_back({"slots", {DType::kInt32}, "length"});
  }
  return def;
}

const OperatorDef& linear_attention_operator() {
  static const OperatorDef def = linear_attention_def(false);
  return def;
}

}  // namespace sinter::plan
