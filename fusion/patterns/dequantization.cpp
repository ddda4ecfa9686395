// SPDX-License-Identifier: Apache-2.0
// Spellings of dequantized weights. To add one: a row here, and a case in
// tests/fusion/goldens/quantize_weights.
#include "fusion/patterns/dequantization.h"

#include "fusion/transforms.h"

namespace sinter::fusion {
namespace {

/// `w`: the integers, `z`: zero points, `s`: scales, `b`: shifts; "$s" is one scale for all.
struct Spelling {
  std::string_view name, pattern;
};

constexpr Spelling kSpellings[] = {
    // ONNX's DequantizeLinear: the difference is exact, in int32. A zero point must be found in its
    // storage type: a cast would hide that one serves many elements.
    {"dequantize_linear", "Cast(Cast(w) - Cast(z)) * s"},
    {"dequantize_linear_scalar", "Cast(Cast(w) - Cast(z)) * $s"},
    {"dequantize_linear_wide_zero", "Cast(Cast(w) - z) * s"},
    {"dequantize_linear_wide_zero_scalar", "Cast(Cast(w) - z) * $s"},
    {"dequantize_linear_symmetric", "Cast(Cast(w)) * s"},
    {"dequantize_linear_symmetric_scalar", "Cast(Cast(w)) * $s"},
    // PyTorch's exporters, in floats.
    {"integer_difference", "(Cast(w) - Cast(z)) * s"},
    {"integer_difference_scalar", "(Cast(w) - Cast(z)) * $s"},
    {"float_difference", "(Cast(w) - z) * s"},
    {"float_difference_scalar", "(Cast(w) - z) * $s"},
    {"scale_shift", "Cast(w) * s + b"},
    {"scale", "Cast(w) * s"},
    {"scale_scalar", "Cast(w) * $s"},
    {"integer_difference_divided", "(Cast(w) - Cast(z)) / s"},
    {"float_difference_divided", "(Cast(w) - z) / s"},
    {"divided", "Cast(w) / s"},
    // The scale follows the matmul.
    {"unscaled", "Cast(w)"},
};

struct ParsedSpelling {
  std::string_view name;
  Pattern pattern;
};

const std::vector<ParsedSpelling>& parsed_spellings() {
  static const std::vector<ParsedSpelling> parsed = [] {
    std::vector<ParsedSpelling> result;
    for (const Spelling& row : kSpellings) result.push_back({row.name, parse_pattern(row.pattern)});
    return result;
  }();
  return parsed;
}

}  // namespace

std::optional<Dequantization> match_dequantization(const Graph& graph, ValueId value,
                                                   const std::function<bool(ValueId)>& is_known) {
  if (!is_known(value)) return std::nullopt;
  MatchFacts facts(graph);
  Matcher matcher(facts, value);
  for (const ParsedSpelling& spelling : parsed_spellings()) {
    for (const Match& match : matcher.match(spelling.pattern)) {
      const Element& weight = match.variables.at("w").back();
      const DType type = graph.type(weight.value).dtype;
      const Tensor* const constant = graph.value(weight.value).constant.get();
      const bool is_float4 =
          type == DType::kFloat8E4M3FN && constant != nullptr &&
          ir::apply(kHasFloat4, {}, std::span(constant, 1)).front().at_int(0) != 0;
      if (type != DType::kInt8 && type != DType::kUInt8 && !is_float4) continue;
      Dequantization result{spelling.name, weight, {}, {}, {}, spelling.name.ends_with("divided")};
      const auto read = [&](const char* name, std::optional<Term>& term) {
        if (const auto found = match.variables.find(name); found != match.variables.end())
          term = Term{found->second.back(), 0};
      };
      read("z", result.zero);
      read("s", result.scale);
      read("b", result.shift);
      if (const auto found = match.constants.find("s"); found != match.constants.end())
        result.scale = Term{std::nullopt, found->second};
      return result;
    }
  }
  return std::nullopt;
}

}  // namespace sinter::fusion
