#include "tools/serve/api/inference_request.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "tools/serve/api/api_error.h"
#include "tools/serve/api/json_text.h"

namespace sinter::tools {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

struct TypeName {
  DType dtype;
  std::string_view name;
};
constexpr std::array kTypes = {
    TypeName{DType::kBool, "BOOL"},     TypeName{DType::kUInt8, "UINT8"},
    TypeName{DType::kUInt16, "UINT16"}, TypeName{DType::kUInt32, "UINT32"},
    TypeName{DType::kUInt64, "UINT64"}, TypeName{DType::kInt8, "INT8"},
    TypeName{DType::kInt16, "INT16"},   TypeName{DType::kInt32, "INT32"},
    TypeName{DType::kInt64, "INT64"},   TypeName{DType::kFloat16, "FP16"},
    TypeName{DType::kBFloat16, "BF16"}, TypeName{DType::kFloat32, "FP32"},
    TypeName{DType::kFloat64, "FP64"}};
constexpr std::size_t kMostRank = 16;

std::string name_of(DType dtype) {
  const auto found = std::ranges::find(kTypes, dtype, &TypeName::dtype);
  return found == kTypes.end() ? std::string(to_string(dtype)) : std::string(found->name);
}

[[noreturn]] void fail(const std::string& tensor, std::string_view what) {
  throw ApiError(400, fmt::format("tensor '{}' {}", tensor, what), tensor);
}

/// Calls use(type tag) for the C++ type whose numbers JSON can say.
template <typename Use>
void with_type(DType dtype, const std::string& tensor, const Use& use) {
  switch (dtype) {
    case DType::kInt8: return use(std::int8_t{});
    case DType::kInt16: return use(std::int16_t{});
    case DType::kInt32: return use(std::int32_t{});
    case DType::kInt64: return use(std::int64_t{});
    case DType::kUInt8: return use(std::uint8_t{});
    case DType::kUInt16: return use(std::uint16_t{});
    case DType::kUInt32: return use(std::uint32_t{});
    case DType::kUInt64: return use(std::uint64_t{});
    case DType::kFloat32: return use(float{});
    case DType::kFloat64: return use(double{});
    case DType::kBool: return use(bool{});
    default:
      fail(tensor, fmt::format("is {}, which JSON cannot say: send and ask for binary data",
                               name_of(dtype)));
  }
}

template <typename T>
T number_of(const json& value, const std::string& tensor) {
  if constexpr (std::is_same_v<T, bool>) {
    if (value.is_boolean()) return value.get<bool>();
    fail(tensor, fmt::format("has {}, which is neither true nor false", value.dump()));
  } else if constexpr (std::is_integral_v<T>) {
    if (!value.is_number_integer()) fail(tensor, fmt::format("has {}, no integer", value.dump()));
    const bool fits = value.is_number_unsigned() ? std::in_range<T>(value.get<std::uint64_t>())
                                                 : std::in_range<T>(value.get<std::int64_t>());
    if (!fits) fail(tensor, fmt::format("has {}, which its type cannot hold", value.dump()));
    return value.get<T>();
  } else {
    if (!value.is_number()) fail(tensor, fmt::format("has {}, no number", value.dump()));
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
  if (depth > kMostRank) fail(tensor, "has lists in lists beyond any shape");
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

std::vector<std::int64_t> shape_of(const json& input, const std::string& tensor,
                                   std::size_t& count) {
  const json& shape = field(input, "shape", fmt::format("tensor '{}'", tensor));
  if (!shape.is_array() || shape.size() > kMostRank) fail(tensor, "has a shape that is no list");
  std::vector<std::int64_t> result;
  count = 1;
  for (const json& dim : shape) {
    if (!dim.is_number_unsigned() || dim.get<std::uint64_t>() > std::uint64_t{INT32_MAX})
      fail(tensor, fmt::format("has the shape {}", shape.dump()));
    result.push_back(dim.get<std::int64_t>());
    if (__builtin_mul_overflow(count, static_cast<std::size_t>(result.back()), &count))
      fail(tensor, fmt::format("has the shape {}", shape.dump()));
  }
  return result;
}

/// `rest`: the binary data that no tensor in front has taken.
OwnedTensor tensor_of(const json& input, const std::string& name, std::string_view& rest) {
  const json& datatype = field(input, "datatype", fmt::format("tensor '{}'", name));
  const auto type = std::ranges::find_if(
      kTypes, [&](const TypeName& each) { return datatype == std::string(each.name); });
  if (type == kTypes.end())
    fail(name, fmt::format("has the datatype {}, which is not supported", datatype.dump()));
  OwnedTensor tensor;
  tensor.dtype = type->dtype;
  std::size_t count = 0;
  tensor.shape = shape_of(input, name, count);
  if (const json* size = parameter(input, "binary_data_size")) {
    if (!size->is_number_unsigned() || size->get<std::size_t>() > rest.size())
      fail(name, fmt::format("has {} bytes of binary data, of which {} have come", size->dump(),
                             rest.size()));
    const auto bytes = size->get<std::size_t>();
    tensor.data.resize(bytes);
    if (bytes > 0) std::memcpy(tensor.data.data(), rest.data(), bytes);
    rest.remove_prefix(bytes);
  } else {
    const json& data = field(input, "data", fmt::format("tensor '{}'", name));
    if (!data.is_array()) fail(name, "has data that is no list");
    with_type(tensor.dtype, name,
              [&](auto tag) { append<decltype(tag)>(data, 1, name, tensor.data); });
  }
  if (tensor.data.size() / size_of(tensor.dtype) != count ||
      tensor.data.size() % size_of(tensor.dtype) != 0)
    fail(name, fmt::format("has {} bytes: its shape has {} elements of {}", tensor.data.size(),
                           count, name_of(tensor.dtype)));
  return tensor;
}

ordered_json binding_json(const BindingInfo& binding) {
  ordered_json shape = ordered_json::array();
  for (const DimInfo& dim : binding.shape)
    shape.push_back(dim.min == dim.max ? dim.min : std::int64_t{-1});
  return {{"name", binding.name}, {"datatype", name_of(binding.dtype)}, {"shape", shape}};
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
      fail(name, "is there twice");
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
      if (found == all.end()) fail(name, "is no output of the model");
      result.outputs.emplace_back(found - all.begin(), flag(output, "binary_data", is_binary));
    }
  } else {
    for (std::size_t i = 0; i < all.size(); ++i) result.outputs.emplace_back(i, is_binary);
  }
  return result;
}

InferenceAnswer write_inference(const InferenceRequest& request, const std::string& model,
                                const Plan& plan, const std::vector<OwnedTensor>& outputs) {
  ordered_json head = {{"model_name", model}, {"model_version", "1"}};
  if (!request.id.empty()) head["id"] = request.id;
  ordered_json& list = head["outputs"] = ordered_json::array();
  std::string binary;
  bool has_binary = false;
  for (const auto& [index, is_binary] : request.outputs) {
    const OwnedTensor& tensor = outputs[index];
    const std::string& name = plan.outputs()[index].name;
    ordered_json one = {
        {"name", name}, {"datatype", name_of(tensor.dtype)}, {"shape", tensor.shape}};
    if (is_binary) {
      has_binary = true;
      one["parameters"] = {{"binary_data_size", tensor.data.size()}};
      binary.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
    } else {
      ordered_json& data = one["data"] = ordered_json::array();
      with_type(tensor.dtype, name, [&](auto tag) {
        using T = decltype(tag);
        for (std::size_t at = 0; at < tensor.data.size(); at += sizeof(T)) {
          T value;
          std::memcpy(&value, tensor.data.data() + at, sizeof value);
          data.push_back(value);
        }
      });
    }
    list.push_back(std::move(one));
  }
  InferenceAnswer answer;
  answer.body = dump(head);
  if (has_binary) {
    answer.json_bytes = answer.body.size();
    answer.body += binary;
  }
  return answer;
}

ordered_json metadata_of(const std::string& model, const Plan& plan) {
  ordered_json inputs = ordered_json::array(), outputs = ordered_json::array();
  for (const BindingInfo& input : plan.inputs()) inputs.push_back(binding_json(input));
  for (const BindingInfo& output : plan.outputs()) outputs.push_back(binding_json(output));
  return {{"name", model},
          {"versions", {"1"}},
          {"platform", "sinter_plan"},
          {"inputs", std::move(inputs)},
          {"outputs", std::move(outputs)}};
}

}  // namespace sinter::tools
