// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/api/inference_request.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "tools/serve/api/api_error.h"
#include "tools/serve/api/json_text.h"
#include "tools/serve/api/json_types.h"
#include "tools/serve/api/tensor_types.h"

namespace sinter::tools {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

template <typename T>
T number_of(const json& value, const std::string& tensor) {
  if constexpr (std::is_same_v<T, bool>) {
    if (value.is_boolean()) return value.get<bool>();
    fail_tensor(tensor, fmt::format("has {}, which is neither true nor false", value.dump()));
  } else if constexpr (std::is_integral_v<T>) {
    if (!value.is_number_integer())
      fail_tensor(tensor, fmt::format("has {}, no integer", value.dump()));
    const bool fits = value.is_number_unsigned() ? std::in_range<T>(value.get<std::uint64_t>())
                                                 : std::in_range<T>(value.get<std::int64_t>());
    if (!fits) fail_tensor(tensor, fmt::format("has {}, which its type cannot hold", value.dump()));
    return value.get<T>();
  } else {
    if (!value.is_number()) fail_tensor(tensor, fmt::format("has {}, no number", value.dump()));
    return value.get<T>();
  }
}

/// Numbers of a list, or of lists in lists.
template <typename T>
void append(const json& data, std::size_t depth, const std::string& tensor,
            std::vector<std::byte>& to) {
  if (!data.is_array()) {
    const T value = number_of<T>(data, tensor);
    const auto at = to.size();
    to.resize(at + sizeof value);
    std::memcpy(to.data() + at, &value, sizeof value);
    return;
  }
  if (depth > kMostTensorRank) fail_tensor(tensor, "has lists in lists beyond any shape");
  for (const json& one : data) append<T>(one, depth + 1, tensor, to);
}

const json& field(const json& object, const char* name, const std::string& of) {
  const auto found = object.find(name);
  if (found == object.end()) throw ApiError(400, fmt::format("{} has no '{}'", of, name), name);
  return *found;
}

std::string name_in(const json& object, const char* of) {
  if (!object.is_object()) throw ApiError(400, fmt::format("{} is no object", of));
  const json& name = field(object, "name", of);
  if (!name.is_string()) throw ApiError(400, fmt::format("{} has a name that is no text", of));
  return name.get<std::string>();
}

/// A parameter of a request, an input or an output; null if it is not there.
const json* parameter(const json& object, const char* name) {
  const auto all = object.find("parameters");
  if (all == object.end() || !all->is_object()) return nullptr;
  const auto found = all->find(name);
  return found == all->end() ? nullptr : &*found;
}
bool flag(const json& object, const char* name, bool otherwise) {
  const json* value = parameter(object, name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean())
    throw ApiError(400, fmt::format("'{}' is neither true nor false", name), name);
  return value->get<bool>();
}

std::vector<std::int64_t> shape_of(const json& input, const std::string& tensor) {
  const json& shape = field(input, "shape", fmt::format("tensor '{}'", tensor));
  if (!shape.is_array()) fail_tensor(tensor, "has a shape that is no list");
  std::vector<std::int64_t> result;
  for (const json& dim : shape) {
    if (!dim.is_number_integer())
      fail_tensor(tensor, fmt::format("has the shape {}", shape.dump()));
    result.push_back(dim.is_number_unsigned() && dim.get<std::uint64_t>() > INT32_MAX
                         ? -1
                         : dim.get<std::int64_t>());
  }
  return result;
}

/// `rest`: the binary data that no tensor in front has taken.
OwnedTensor tensor_of(const json& input, const std::string& name, std::string_view& rest) {
  const json& datatype = field(input, "datatype", fmt::format("tensor '{}'", name));
  const auto type =
      datatype.is_string() ? type_of_protocol(datatype.get<std::string>()) : std::nullopt;
  if (!type)
    fail_tensor(name, fmt::format("has the datatype {}, which is not supported", datatype.dump()));
  OwnedTensor tensor;
  tensor.dtype = *type;
  tensor.shape = shape_of(input, name);
  const std::size_t count = checked_count(name, tensor.shape);
  if (const json* size = parameter(input, "binary_data_size")) {
    if (!size->is_number_unsigned() || size->get<std::size_t>() > rest.size())
      fail_tensor(name, fmt::format("has {} bytes of binary data, of which {} have come",
                                    size->dump(), rest.size()));
    const auto bytes = size->get<std::size_t>();
    tensor.data.resize(bytes);
    if (bytes > 0) std::memcpy(tensor.data.data(), rest.data(), bytes);
    rest.remove_prefix(bytes);
  } else {
    const json& data = field(input, "data", fmt::format("tensor '{}'", name));
    if (!data.is_array()) fail_tensor(name, "has data that is no list");
    with_json_type(tensor.dtype, name,
                   [&](auto tag) { append<decltype(tag)>(data, 1, name, tensor.data); });
  }
  check_bytes(name, tensor, count);
  return tensor;
}

ordered_json binding_json(const BindingInfo& binding) {
  return {{"name", binding.name},
          {"datatype", protocol_name(binding.dtype)},
          {"shape", protocol_shape(binding)}};
}

}  // namespace

InferenceRequest parse_inference(const std::string& body, std::size_t json_bytes,
                                 const Plan& plan) {
  if (json_bytes > body.size())
    throw ApiError(400, fmt::format("Inference-Header-Content-Length is {}, and the body has {} "
                                    "bytes",
                                    json_bytes, body.size()));
  const json request = parse_object(std::string_view(body).substr(0, json_bytes));
  InferenceRequest result;
  if (const auto id = request.find("id"); id != request.end() && id->is_string())
    result.id = id->get<std::string>();
  std::string_view rest = std::string_view(body).substr(json_bytes);
  const json& inputs = field(request, "inputs", "the request");
  if (!inputs.is_array()) throw ApiError(400, "'inputs' is no list", "inputs");
  for (const json& input : inputs) {
    const std::string name = name_in(input, "an input");
    if (!result.inputs.emplace(name, tensor_of(input, name, rest)).second)
      fail_tensor(name, "is there twice");
  }
  if (!rest.empty())
    throw ApiError(400, fmt::format("{} bytes of binary data belong to no input", rest.size()));
  const bool is_binary = flag(request, "binary_data_output", false);
  const auto& all = plan.outputs();
  if (const auto outputs = request.find("outputs"); outputs != request.end()) {
    if (!outputs->is_array()) throw ApiError(400, "'outputs' is no list", "outputs");
    for (const json& output : *outputs) {
      const std::string name = name_in(output, "an output");
      const auto found = std::ranges::find(all, name, &BindingInfo::name);
      if (found == all.end()) fail_tensor(name, "is no output of the model");
      if (std::ranges::find(result.outputs, static_cast<std::size_t>(found - all.begin()),
                            &std::pair<std::size_t, bool>::first) != result.outputs.end())
        fail_tensor(name, "is asked for twice");
      result.outputs.emplace_back(found - all.begin(), flag(output, "binary_data", is_binary));
    }
  } else {
    for (std::size_t i = 0; i < all.size(); ++i) result.outputs.emplace_back(i, is_binary);
  }
  return result;
}

ordered_json metadata_of(const std::string& model, const Plan& plan) {
  ordered_json inputs = ordered_json::array(), outputs = ordered_json::array();
  for (const BindingInfo& input : plan.inputs()) inputs.push_back(binding_json(input));
  for (const BindingInfo& output : plan.outputs()) outputs.push_back(binding_json(output));
  return {{"name", model},
          {"versions", {kModelVersion}},
          {"platform", kModelPlatform},
          {"inputs", std::move(inputs)},
          {"outputs", std::move(outputs)}};
}

}  // namespace sinter::tools
