// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/options/shapes.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/ranges.h>

#include "ir/text/similar.h"
#include "runtime/format_error.h"

namespace sinter::tools {
namespace {

std::optional<std::int64_t> parse_int(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string_view> split_views(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

Error no_dim(std::string_view text) {
  return usage_error(
      "'{}' is no dimension: write NAME=MIN..MAX, NAME=VALUE or, for multiples of STEP, "
      "NAME=MIN..MAX/STEP; NAME=OTHER says that two are equal, and NAME=A+B that one is a sum",
      text);
}

Error no_symbol(const std::string& name, const ir::Graph& model) {
  std::vector<std::string> symbols;
  for (const auto& [symbol, range] : model.ranges()) symbols.push_back(symbol);
  if (symbols.empty())
    return usage_error("the model has no symbolic dimension '{}', nor any", name);
  const std::string hint = ir::did_you_mean(name, symbols);
  return usage_error(
      "the model has no symbolic dimension '{}'{}", name,
      hint.empty() ? fmt::format("; it has '{}'", fmt::join(symbols, "', '")) : hint);
}

Error no_input(const std::string& name, const ir::Graph& model) {
  std::vector<std::string> inputs;
  for (const auto id : model.inputs()) inputs.push_back(model.value(id).name);
  const std::string hint = ir::did_you_mean(name, inputs);
  return usage_error("the model has no input '{}'{}", name,
                     hint.empty() ? fmt::format("; it has '{}'", fmt::join(inputs, "', '")) : hint);
}

/// The range of `symbol` in `ranges`; adds the model's range if it is missing.
ir::Range& range_of(std::map<std::string, ir::Range>& ranges, const std::string& symbol,
                    const ir::Graph& model) {
  return ranges.try_emplace(symbol, model.ranges().at(symbol)).first->second;
}

void apply_shapes(const Shapes& shapes, bool is_min, const ir::Graph& model,
                  std::map<std::string, ir::Range>& ranges) {
  for (const auto& [name, shape] : shapes) {
    const ir::Value* input = nullptr;
    for (const auto id : model.inputs())
      if (model.value(id).name == name) input = &model.value(id);
    if (input == nullptr) throw no_input(name, model);
    const auto& type = input->type;
    if (type.shape.size() != shape.size())
      throw usage_error("input '{}' is {}, the shape given has rank {}", name, ir::to_string(type),
                        shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (const auto symbol = type.shape[d].as_symbol()) {
        auto& range = range_of(ranges, *symbol, model);
        if (is_min) {
          range.min = shape[d];
        } else {
          range.max = shape[d];
        }
      } else if (type.shape[d].is_constant() && type.shape[d].value() != shape[d]) {
        throw usage_error("dimension {} of input '{}' is {} in the model, {} was given", d, name,
                          type.shape[d].value(), shape[d]);
      }
    }
  }
}

/// True for a scalar bool input, which may choose between bodies of the model.
bool is_flag(const ir::Graph& model, const std::string& name) {
  return std::ranges::any_of(model.inputs(), [&](ir::ValueId input) {
    const ir::Value& value = model.value(input);
    return value.name == name && value.type.dtype == DType::kBool &&
           ir::element_count(value.type.shape) == ir::Dim(1);
  });
}

/// The value of `symbol`, the only symbol of `dim`, for which `dim` is `size`; nullopt if not
/// linear.
std::optional<std::int64_t> value_for(const ir::Dim& dim, const std::string& symbol,
                                      std::int64_t size) {
  const ir::Dim rest = dim.substitute({{symbol, ir::Dim(0)}});
  const auto slope = ir::divide_exactly(dim - rest, ir::Dim::symbol(symbol));
  if (!rest.is_constant() || !slope || !slope->is_constant()) return std::nullopt;
  const auto value = ir::divide_exactly(ir::Dim(size) - rest, *slope);
  return value ? std::optional(value->value()) : std::nullopt;
}

}  // namespace

std::string to_text(const Shapes& shapes) {
  std::vector<std::string> texts;
  for (const auto& [name, shape] : shapes)
    texts.push_back(fmt::format("{}:{}", name, fmt::join(shape, "x")));
  return fmt::format("{}", fmt::join(texts, ","));
}

frontend::ImportOptions import_options(const CompileOptions& options, const ir::Graph& model) {
  frontend::ImportOptions result;
  apply_shapes(options.min_shapes, true, model, result.ranges);
  apply_shapes(options.max_shapes, false, model, result.ranges);
  for (const auto& [name, wanted] : options.dims) {
    if (is_flag(model, name)) {
      if (wanted.min != wanted.max || wanted.min < 0 || wanted.max > 1)
        throw usage_error("input '{0}' is a bool: write {0}=0 or {0}=1", name);
      result.flags[name] = wanted.min != 0;
      continue;
    }
    if (!model.ranges().contains(name)) throw no_symbol(name, model);
    if (!wanted.same_as.empty()) {
      const ir::Dim same = ir::parse_dim(wanted.same_as);
      for (const std::string& symbol : same.symbols())
        if (!model.ranges().contains(symbol)) throw no_symbol(symbol, model);
      result.same.insert_or_assign(name, same);
      result.ranges.erase(name);
      continue;
    }
    if (wanted.multiple_of > 1) result.multiples[name] = wanted.multiple_of;
    auto& range = range_of(result.ranges, name, model);
    range.min = wanted.min;
    range.max = wanted.max;
  }
  for (const auto& [symbol, range] : result.ranges)
    if (range.min < 0 || range.min > range.max)
      throw usage_error("dimension '{}' has the empty range {}..{}", symbol, range.min, range.max);
  return result;
}

ir::Bindings given_sizes(const InputDims& inputs, const Shapes& shapes) {
  for (const auto& [name, shape] : shapes) {
    bool known = false;
    for (const auto& input : inputs) known = known || input.first == name;
    if (!known) {
      std::vector<std::string> names;
      for (const auto& input : inputs) names.push_back(input.first);
      const std::string hint = ir::did_you_mean(name, names);
      throw usage_error(
          "there is no input '{}'{}", name,
          hint.empty() ? fmt::format("; the inputs are {}", fmt::join(names, ", ")) : hint);
    }
  }
  ir::Bindings symbols;
  for (const auto& [name, dims] : inputs) {
    const auto given = shapes.find(name);
    if (given == shapes.end()) continue;
    if (given->second.size() != dims.size())
      throw usage_error("input '{}' is [{}], the shape given has rank {}", name,
                        fmt::join(dims, ", "), given->second.size());
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const ir::Dim dim = ir::parse_dim(dims[d]);
      const auto names = dim.symbols();
      if (names.size() != 1) continue;
      // The session reports the error if there is no such value.
      if (const auto value = value_for(dim, names[0], given->second[d]); value && *value >= 0)
        symbols.emplace(names[0], *value);
    }
  }
  return symbols;
}

Shapes complete_shapes(const InputDims& inputs, const Shapes& shapes, std::int64_t fallback,
                       const ir::Bindings& least) {
  ir::Bindings symbols = given_sizes(inputs, shapes);
  Shapes result;
  for (const auto& [name, dims] : inputs) {
    if (const auto given = shapes.find(name); given != shapes.end()) {
      result[name] = given->second;
      continue;
    }
    result[name] = {};
    for (const auto& text : dims) {
      const ir::Dim dim = ir::parse_dim(text);
      for (const std::string& symbol : dim.symbols()) {
        const auto known = least.find(symbol);
        symbols.emplace(symbol,
                        known == least.end() ? fallback : std::max(fallback, known->second));
      }
      result[name].push_back(dim.evaluate(symbols));
    }
  }
  return result;
}

ir::Bindings typical_sizes(const ir::Graph& model, const Shapes& shapes) {
  constexpr std::int64_t kTypical = 512;
  ir::Bindings sizes;
  for (const auto& [name, shape] : shapes) {
    const ir::Value* input = nullptr;
    for (const auto id : model.inputs())
      if (model.value(id).name == name) input = &model.value(id);
    if (input == nullptr) throw no_input(name, model);
    if (input->type.shape.size() != shape.size())
      throw usage_error("input '{}' is {}, the shape given has rank {}", name,
                        ir::to_string(input->type), shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const ir::Dim& dim = input->type.shape[d];
      const auto symbols = dim.symbols();
      const auto value = symbols.size() == 1 ? value_for(dim, symbols[0], shape[d]) : std::nullopt;
      if (value) sizes.emplace(symbols[0], *value);
      if (symbols.size() <= 1 && dim.evaluate(sizes) != shape[d])
        throw usage_error("dimension {} of input '{}' is {}, {} was given", d, name,
                          dim.to_string(), shape[d]);
    }
  }
  for (const auto& [symbol, range] : model.ranges()) {
    const std::int64_t usual = range.max == INT64_MAX
                                   ? std::max<std::int64_t>(range.min, 1)
                                   : std::max(range.min, std::min(range.max, kTypical));
    const auto at = sizes.emplace(symbol, usual).first;
    if (at->second < range.min || at->second > range.max)
      throw usage_error("dimension '{}' is {} there; its range is {}..{}", symbol, at->second,
                        range.min, range.max);
  }
  return sizes;
}

}  // namespace sinter::tools

namespace sinter {

Shapes parse_shapes(std::string_view text) {
  Shapes shapes;
  for (const auto part : tools::split_views(text, ',')) {
    const auto colon = part.rfind(':');
    if (colon == std::string_view::npos || colon == 0)
      throw usage_error("'{}' is no shape: write NAME:DxDxD, for example ids:1x64", part);
    std::vector<std::int64_t> shape;
    for (const auto dim : tools::split_views(part.substr(colon + 1), 'x')) {
      const auto value = tools::parse_int(dim);
      if (!value || *value < 0) throw usage_error("'{}' in '{}' is no dimension", dim, part);
      shape.push_back(*value);
    }
    shapes[std::string(part.substr(0, colon))] = std::move(shape);
  }
  return shapes;
}

void parse_dim(std::string_view text, DimRanges& ranges) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) throw tools::no_dim(text);
  const std::string name(text.substr(0, equals));
  auto value = text.substr(equals + 1);
  DimRange range;
  if (value.empty()) throw tools::no_dim(text);
  if (value.find_first_not_of("-.0123456789/") != std::string_view::npos) {
    try {
      ir::parse_dim(value);
    } catch (const Error&) {
      throw tools::no_dim(text);
    }
    range.same_as = value;
    ranges[name] = std::move(range);
    return;
  }
  if (const auto slash = value.find('/'); slash != std::string_view::npos) {
    const auto step = tools::parse_int(value.substr(slash + 1));
    if (!step || *step < 1) throw tools::no_dim(text);
    range.multiple_of = *step;
    value = value.substr(0, slash);
  }
  const auto dots = value.find("..");
  const auto low = tools::parse_int(value.substr(0, dots));
  const auto high = dots == std::string_view::npos ? low : tools::parse_int(value.substr(dots + 2));
  if (!low || !high) throw tools::no_dim(text);
  range.min = *low;
  range.max = *high;
  ranges[name] = std::move(range);
}

void parse_bound(std::string_view text, Bounds& bounds) {
  const auto equals = text.rfind('=');
  const auto most = equals == text.npos ? std::nullopt : tools::parse_int(text.substr(equals + 1));
  if (equals == 0 || !most || *most < 0)
    throw usage_error("'{}' is no bound: write NAME=N, the most that a size may be", text);
  bounds[std::string(text.substr(0, equals))] = *most;
}

}  // namespace sinter
