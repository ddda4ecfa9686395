// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/table/row_checks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/ranges.h>
#include <onnx.pb.h>

#include "frontend/model/attributes.h"
#include "frontend/ops/table/input_names.h"
#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

/// Operators of ONNX's domain for which ONNX Runtime 1.31 has schemas of its own, in all opsets;
/// these ignore attributes that they do not know.
constexpr std::string_view kOfOnnxRuntime[] = {"Affine",
                                               "Crop",
                                               "DynamicSlice",
                                               "ImageScaler",
                                               "LayerNormalization",
                                               "ParametricSoftplus",
                                               "Scale",
                                               "ScaledTanh",
                                               "SimplifiedLayerNormalization",
                                               "ThresholdedRelu"};

/// The versions of `row`'s operator that have `attribute`, which `version` lacks, and the
/// replacement in `version`.
std::string where_else(std::span<const OpInput> inputs, const OpAttribute& attribute,
                       std::int64_t version) {
  std::string text = version < attribute.first ? fmt::format("opsets from {} on", attribute.first)
                                               : fmt::format("opsets up to {}", attribute.last);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (same_name(inputs[i].name, attribute.name))
      text += fmt::format("; opset {} has '{}' as input {}", version, inputs[i].name, i);
  return text;
}

/// Known attributes for a node of `row` in `version`; those of the operator's other rows carry a
/// note about their versions.
std::vector<KnownAttribute> known_attributes(const OpRow& row, std::int64_t version,
                                             std::span<const OpInput> inputs) {
  std::vector<KnownAttribute> known;
  const auto add = [&](const OpAttribute& each) {
    const bool holds = version >= each.first && version <= each.last;
    known.push_back({std::string(each.name), holds ? "" : where_else(inputs, each, version)});
  };
  for (const OpAttribute& each : attributes_of(row)) add(each);
  for (const OpRow& other : all_op_rows()) {
    if (&other == &row || other.domain != row.domain || other.name != row.name) continue;
    for (OpAttribute each : attributes_of(other)) {
      if (other.since_version < row.since_version)
        each.last = std::min<std::int64_t>(each.last, row.since_version - 1);
      const auto is_same = [&](const KnownAttribute& k) { return k.name == each.name; };
      if (std::ranges::none_of(known, is_same)) add(each);
    }
  }
  return known;
}

/// An ignored input would silently change the model's meaning: axes of ReduceSum are an input from
/// opset 13 on and were an attribute before.
void check_input_count(const onnx::NodeProto& node, const OpRow& row, std::int64_t version,
                       std::span<const OpInput> inputs) {
  int given = node.input_size();
  while (given > 0 && node.input(given - 1).empty()) --given;
  if (given <= static_cast<int>(inputs.size()) || (!inputs.empty() && inputs.back().is_variadic))
    return;
  std::vector<std::string_view> names;
  for (const OpInput& input : inputs) names.push_back(input.name);
  // Operators of other domains may gain inputs without a new version.
  throw Error(
      row.domain.empty() ? ErrorCode::kInvalidModel : ErrorCode::kUnsupported,
      fmt::format(
          "it has {} inputs, but {} has {} ({})", given,
          row.domain.empty() ? fmt::format("opset {}", version) : "the operator that is known",
          names.size(), names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

/// Indices of inputs that share an element type, by type parameter.
using Sharing = std::map<std::string_view, std::vector<std::size_t>>;

Sharing sharing_inputs(const std::vector<OpInput>& known, std::span<const ValueId> inputs) {
  Sharing sharing;
  for (std::size_t i = 0; i < inputs.size() && !known.empty(); ++i) {
    const OpInput& input = known[std::min(i, known.size() - 1)];
    if (inputs[i].valid() && !input.type.empty()) sharing[input.type].push_back(i);
  }
  return sharing;
}

/// `constant` converted to `dtype`; nullopt if that changes a number.
std::optional<ir::Tensor> as_type(const ir::Tensor& constant, DType dtype) {
  const std::vector<double> values = constant.to_doubles();
  const ir::Tensor result = ir::Tensor::from_doubles(dtype, constant.shape(), values);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (std::isfinite(values[i]) != std::isfinite(result.at(static_cast<std::int64_t>(i))) ||
        (values[i] != 0 && result.at(static_cast<std::int64_t>(i)) == 0))
      return std::nullopt;
  return result;
}

/// The common float type of the non-constant inputs at `places`, or nullopt.
std::optional<DType> computed_type(const ir::GraphBuilder& builder, std::span<const ValueId> inputs,
                                   const std::vector<std::size_t>& places) {
  std::optional<DType> found;
  for (const std::size_t i : places) {
    if (builder.constant_of(inputs[i]) != nullptr) continue;
    const DType own = builder.type(inputs[i]).dtype;
    if (!is_float(own) || (found && *found != own)) return std::nullopt;
    found = own;
  }
  return found;
}

}  // namespace

const RowChecks::Known& RowChecks::known(const OpRow& row, std::int64_t version) {
  const auto [found, is_new] = known_.try_emplace({&row, version});
  Known& known = found->second;
  if (!is_new) return known;
  if (const InputNames* names = find_input_names(row.domain, row.name, version))
    known.inputs = inputs_of(*names);
  known.attributes =
      known_attributes(row, version, known.inputs ? *known.inputs : std::vector<OpInput>());
  return known;
}

std::map<std::string, std::string, std::less<>> RowChecks::check(const onnx::NodeProto& node,
                                                                 const OpRow& row,
                                                                 std::int64_t version) {
  const Known& of_row = known(row, version);
  std::map<std::string, std::string, std::less<>> ignored;
  if (row.domain.empty() && std::ranges::find(kOfOnnxRuntime, row.name) != std::end(kOfOnnxRuntime))
    ignored = ignored_attributes(node, of_row.attributes);
  else
    check_attributes(node, of_row.attributes);
  if (of_row.inputs) check_input_count(node, row, version, *of_row.inputs);
  return ignored;
}

void RowChecks::check_float8(const OpRow& row, std::int64_t version,
                             const ir::GraphBuilder& builder, std::span<const ValueId> inputs) {
  if (row.takes_float8) return;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].valid() || !is_float8(builder.type(inputs[i]).dtype)) continue;
    const auto& names = known(row, version).inputs;
    const std::string name =
        names && !names->empty()
            ? fmt::format(" ('{}')", (*names)[std::min(i, names->size() - 1)].name)
            : "";
    throw Error(row.domain.empty() ? ErrorCode::kInvalidModel : ErrorCode::kUnsupported,
                fmt::format("its input {}{} is {}, and {} takes no floats of 8 bits: cast it, or "
                            "dequantize it, to float16 or float32",
                            i, name, builder.type(inputs[i]), row.name));
  }
}

void RowChecks::unify_types(const OpRow& row, std::int64_t version, ir::GraphBuilder& builder,
                            std::span<ValueId> inputs,
                            const std::function<void(const std::string&)>& warn) {
  std::optional<DType> one;
  const bool differ = std::ranges::any_of(inputs, [&](ValueId input) {
    if (!input.valid()) return false;
    const DType own = builder.type(input).dtype;
    return std::exchange(one, own).value_or(own) != own;
  });
  if (!differ || !known(row, version).inputs) return;
  const std::vector<OpInput>& known_inputs = *known(row, version).inputs;
  const auto shown = [&](std::size_t i) {
    return fmt::format("{} ('{}') {}", i, known_inputs[std::min(i, known_inputs.size() - 1)].name,
                       builder.type(inputs[i]));
  };
  for (const auto& [type, places] : sharing_inputs(known_inputs, inputs)) {
    const auto wanted = computed_type(builder, inputs, places);
    for (const std::size_t i : places) {
      const std::size_t first = places.front();
      const DType own = builder.type(inputs[i]).dtype;
      if (own == (wanted ? *wanted : builder.type(inputs[first]).dtype)) continue;
      std::optional<ir::Tensor> taken;
      if (wanted && is_float(own)) taken = as_type(*builder.constant_of(inputs[i]), *wanted);
      if (!taken) {
        const auto other = std::ranges::find_if(
            places, [&](std::size_t j) { return builder.type(inputs[j]).dtype != own; });
        throw invalid_model_error(
            "its inputs {} and {} must have one element type: cast one of them",
            shown(std::min(i, *other)), shown(std::max(i, *other)));
      }
      warn(fmt::format("input {} is a constant, and is taken as {}, the type of what it goes with",
                       shown(i), to_string(*wanted)));
      inputs[i] = builder.constant(std::move(*taken));
    }
  }
}

}  // namespace sinter::frontend
