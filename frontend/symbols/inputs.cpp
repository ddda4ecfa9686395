// SPDX-License-Identifier: Apache-2.0
#include "frontend/symbols/inputs.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include <onnx.pb.h>

#include "frontend/model/initializers.h"
#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

using ir::Dim;
using Replacements = std::map<std::string, Dim, std::less<>>;

// Limit: every kernel and every proof considers all symbols.
constexpr std::size_t kMaxSymbols = 1024;

template <typename... Args>
[[noreturn]] void usage(fmt::format_string<Args...> format, Args&&... args) {
  throw usage_error(fmt::format(format, std::forward<Args>(args)...));
}

bool is_name(std::string_view text) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::ranges::all_of(text, is_word) && text != "floordiv" && text != "min" && text != "max";
}

/// Maps each dim_param to a symbol name that is valid in graph text; different ones to different
/// names.
class SymbolNames {
 public:
  std::string name_for(const std::string& dim_param) {
    if (const auto known = names_.find(dim_param); known != names_.end()) return known->second;
    const std::string name = symbol_name(dim_param);
    std::string unique = name;
    for (int i = 2; !taken_.insert(unique).second; ++i) unique = fmt::format("{}_{}", name, i);
    names_.emplace(dim_param, unique);
    return unique;
  }

 private:
  std::map<std::string, std::string> names_;
  std::set<std::string> taken_;
};

/// dim_params of all inputs that are plain names: the possible operands of expressions.
std::set<std::string> plain_names(const onnx::GraphProto& graph) {
  std::set<std::string> names;
  for (const auto& input : graph.input())
    for (const auto& dim : input.type().tensor_type().shape().dim())
      if (is_name(dim.dim_param())) names.insert(dim.dim_param());
  return names;
}

/// A name with the words that exporters shorten in full: past_seq_len is past_sequence_length.
std::string in_full(std::string_view name) {
  static const std::map<std::string, std::string, std::less<>> kWords{{"seq", "sequence"},
                                                                      {"len", "length"}};
  std::string result;
  for (std::size_t start = 0; start <= name.size();) {
    const std::size_t end = std::min(name.find('_', start), name.size());
    const std::string_view word = name.substr(start, end - start);
    const auto known = kWords.find(word);
    if (start != 0) result += '_';
    result += known == kWords.end() ? word : std::string_view(known->second);
    start = end + 1;
  }
  return result;
}

/// The one of `names` that `symbol` is, or is short for.
std::optional<std::string> meant_name(const std::string& symbol,
                                      const std::set<std::string>& names) {
  if (names.contains(symbol)) return symbol;
  std::optional<std::string> found;
  for (const std::string& name : names) {
    if (in_full(name) != in_full(symbol)) continue;
    if (found) return std::nullopt;
    found = name;
  }
  return found;
}

std::optional<Dim> as_expression(const std::string& text, const std::set<std::string>& names) {
  if (text.find_first_of("+-*/(") == std::string::npos) return std::nullopt;
  try {
    const Dim dim = ir::parse_dim(text);
    Replacements meant;
    for (const std::string& symbol : dim.symbols()) {
      const auto name = meant_name(symbol, names);
      if (!name) return std::nullopt;
      if (*name != symbol) meant.emplace(symbol, Dim::symbol(*name));
    }
    if (dim.symbols().empty()) return std::nullopt;
    return dim.substitute(meant);
  } catch (const Error&) {
    return std::nullopt;  // a name that only looks like an expression
  }
}

/// Caches start empty: named dimensions that start with "past", and unnamed ones of inputs that do
/// ("past_key_values.0.key").
bool is_of_past(std::string_view symbol) { return symbol.starts_with("past"); }

class InputReader {
 public:
  InputReader(const onnx::GraphProto& graph, const std::unordered_set<std::string>& initializers,
              const ImportOptions& options, std::vector<std::string>& warnings, ModelTexts& texts)
      : graph_(graph),
        initializers_(initializers),
        options_(options),
        warnings_(warnings),
        texts_(texts) {
    shapes_ = options.input_shapes;
    for (const auto& [name, value] : options.input_values)
      shapes_.insert_or_assign(name, value.type().shape);
  }

  GraphInputs read() {
    const std::set<std::string> names = plain_names(graph_);
    for (const std::string& name : names) symbols_.name_for(name);  // these keep their names
    for (const auto& input : graph_.input())
      if (initializers_.count(input.name()) == 0) add(input, names);
    for (const auto& [name, shape] : shapes_)
      if (std::ranges::none_of(
              result_.inputs, [&key = name](const GraphInput& input) { return input.name == key; }))
        usage(
            "a shape or value is given for input '{}', but the model has no such input; it has {}",
            name, input_names());
    for (GraphInput& input : result_.inputs)
      if (shapes_.find(input.name) == shapes_.end())
        for (Dim& dim : input.type.shape) dim = dim.substitute(replacements_);
    assign_ranges();
    return std::move(result_);
  }

 private:
  void add(const onnx::ValueInfoProto& proto, const std::set<std::string>& names) {
    const bool is_tensor = proto.type().value_case() == onnx::TypeProto::kTensorType;
    const bool is_text = is_tensor && proto.type().tensor_type().elem_type() == kString &&
                         proto.type().tensor_type().has_shape();
    if (options_.drop_unsupported_outputs && !is_text &&
        (!is_tensor || !dtype_of(proto.type().tensor_type().elem_type()))) {
      warnings_.push_back(fmt::format(
          "input '{}' is left out: it is {}", proto.name(),
          is_tensor ? onnx_type_name(proto.type().tensor_type().elem_type()) : "no tensor"));
      return;
    }
    if (!is_tensor)
      throw unsupported_error("input '{}' is not a tensor; only tensors are supported",
                              proto.name());
    const auto& tensor = proto.type().tensor_type();
    GraphInput input;
    input.name = proto.name();
    if (is_text) {
      input.text = texts_.of_input(proto.name());
      input.type.dtype = texts_.type_of_input(proto.name());
    } else {
      input.type.dtype = require_dtype(tensor.elem_type(), fmt::format("input '{}'", proto.name()));
    }
    if (const auto value = options_.input_values.find(proto.name());
        value != options_.input_values.end() && value->second.dtype() != input.type.dtype)
      usage("the value given for input '{}' is {}, but the input's elements are {}", input.name,
            ir::to_string(value->second.type()), to_string(input.type.dtype));
    const auto given = shapes_.find(proto.name());
    const auto rank = options_.input_ranks.find(proto.name());
    if (!tensor.has_shape() && given == shapes_.end() && rank == options_.input_ranks.end())
      throw unsupported_error(
          "input '{0}' has no shape in the model, not even a number of dimensions: "
          "give its least and its greatest (--minShapes {0}:1x1 --maxShapes {0}:8x64)",
          proto.name());
    if (!tensor.has_shape() && given == shapes_.end())
      for (std::size_t i = 0; i < rank->second; ++i)
        input.type.shape.push_back(
            Dim::symbol(symbols_.name_for(fmt::format("{}_d{}", proto.name(), i))));
    for (int i = 0; i < tensor.shape().dim_size(); ++i)
      input.type.shape.push_back(read_dim(tensor.shape().dim(i), proto.name(), i, names));
    if (given != shapes_.end()) {
      if (tensor.has_shape()) match_given(input, given->second);
      input.type.shape = given->second;
    }
    result_.inputs.push_back(std::move(input));
  }

  Dim read_dim(const onnx::TensorShapeProto::Dimension& dim, const std::string& input, int i,
               const std::set<std::string>& names) {
    if (dim.has_dim_value() && dim.dim_value() >= 0) return dim.dim_value();
    if (dim.has_dim_value())
      warnings_.push_back(
          fmt::format("dimension {} of input '{}' is {} in the model; taken as symbolic", i, input,
                      dim.dim_value()));
    // Some exporters write "?" for unknown dimensions: it is no common name.
    const bool is_named = dim.has_dim_param() && !dim.dim_param().empty() && dim.dim_param() != "?";
    if (is_named) {
      if (auto expression = as_expression(dim.dim_param(), names)) {
        if (expression->to_string() != ir::parse_dim(dim.dim_param()).to_string())
          warnings_.push_back(fmt::format("dimension {} of input '{}', {}, is taken as {}", i,
                                          input, dim.dim_param(), expression->to_string()));
        return *expression;
      }
    }
    const std::string model_name = is_named ? dim.dim_param() : fmt::format("{}_d{}", input, i);
    const std::string name = symbols_.name_for(model_name);
    if (is_named && name != model_name)
      warnings_.push_back(fmt::format("dimension '{}' is called '{}'", model_name, name));
    return Dim::symbol(name);
  }

  /// Records the symbols that `given` replaces.
  void match_given(const GraphInput& input, const Shape& given) {
    const Shape& own = input.type.shape;
    if (own.size() != given.size())
      usage("the shape {} given for input '{}' has {} dimensions, but the model's shape {} has {}",
            ir::to_string(given), input.name, given.size(), ir::to_string(own), own.size());
    for (std::size_t d = 0; d < own.size(); ++d) {
      if (own[d].is_constant() && own[d] != given[d])
        usage("the shape {} given for input '{}' contradicts the model's shape {} in dimension {}",
              ir::to_string(given), input.name, ir::to_string(own), d);
      if (given[d].is_constant() && given[d].value() < 0)
        usage("the shape {} given for input '{}' has a negative dimension", ir::to_string(given),
              input.name);
      const auto symbol = own[d].as_symbol();
      if (!symbol) continue;
      const auto [known, is_new] = replacements_.emplace(*symbol, given[d]);
      if (!is_new && known->second != given[d])
        usage("the shapes given for the inputs make dimension '{}' both {} and {}", *symbol,
              known->second.to_string(), given[d].to_string());
    }
  }

  /// The multiples of `step` in `range`, as a range of their quotients.
  static ir::Range in_steps(const std::string& symbol, const ir::Range& range, std::int64_t step) {
    if (step < 1) usage("dimension '{}' cannot be a multiple of {}", symbol, step);
    const ir::Range steps{(range.min + step - 1) / step, range.max / step, nullptr};
    if (steps.min > steps.max)
      usage("the range {}..{} given for dimension '{}' holds no multiple of {}", range.min,
            range.max, symbol, step);
    return steps;
  }

  std::set<std::string> symbols_of_inputs() const {
    std::set<std::string> symbols;
    for (const GraphInput& input : result_.inputs)
      for (const Dim& dim : input.type.shape)
        for (const std::string& symbol : dim.symbols()) symbols.insert(symbol);
    return symbols;
  }

  void unite_symbols() {
    const std::set<std::string> symbols = symbols_of_inputs();
    Replacements replaced;
    for (const auto& [symbol, other] : options_.same) {
      std::vector<std::string> names = other.symbols();
      for (const std::string& name : names)
        if (options_.same.count(name) != 0)
          usage(
              "dimension '{}' is said to be {}, but '{}' is said to be something else: "
              "name the last one for both",
              symbol, other.to_string(), name);
      names.push_back(symbol);
      for (const std::string& name : names)
        if (symbols.count(name) == 0)
          usage("dimension '{}' is said to be {}, but the model has no dimension '{}'", symbol,
                other.to_string(), name);
      replaced.emplace(symbol, other);
    }
    for (GraphInput& input : result_.inputs)
      for (Dim& dim : input.type.shape) dim = dim.substitute(replaced);
  }

  void assign_ranges() {
    unite_symbols();
    const std::set<std::string> symbols = symbols_of_inputs();
    Replacements fixed;
    for (const std::string& symbol : symbols) {
      ir::Range range{is_of_past(symbol) ? 0 : 1, kDefaultMaxDim, nullptr};
      if (const auto given = options_.ranges.find(symbol); given != options_.ranges.end()) {
        range = given->second;
      } else {
        result_.defaulted.insert(symbol);
        const auto least = options_.least.find(symbol);
        if (least != options_.least.end()) range.min = std::max(range.min, least->second);
        const auto most = options_.most.find(symbol);
        if (most != options_.most.end()) range.max = std::min(range.max, most->second);
      }
      if (range.min < 0 || range.min > range.max)
        usage("the range {}..{} given for dimension '{}' is empty or negative", range.min,
              range.max, symbol);
      if (const auto step = options_.multiples.find(symbol); step != options_.multiples.end()) {
        range = in_steps(symbol, range, step->second);
        fixed.emplace(symbol, Dim::symbol(symbol) * Dim(step->second));
        result_.ranges.emplace(symbol, range);
      } else if (range.min == range.max) {
        fixed.emplace(symbol, range.min);
      } else {
        result_.ranges.emplace(symbol, range);
      }
    }
    for (const auto& [symbol, step] : options_.multiples)
      if (symbols.count(symbol) == 0)
        usage("dimension '{}' is said to be a multiple of {}, but the model does not have it",
              symbol, step);
    for (const auto& [symbol, range] : options_.ranges) {
      if (symbols.count(symbol) != 0 || options_.same.count(symbol) != 0) continue;
      if (replacements_.count(symbol) != 0) {
        warnings_.push_back(fmt::format(
            "the range given for dimension '{}' has no effect: an input's given shape replaces it",
            symbol));
        continue;
      }
      usage("a range is given for dimension '{}', but the model has {}", symbol,
            symbols.empty() ? "no symbolic dimensions"
                            : fmt::format("only these: '{}'", fmt::join(symbols, "', '")));
    }
    if (result_.ranges.size() > kMaxSymbols)
      throw unsupported_error(
          "the model has {} symbolic dimensions, and at most {} are supported: give some as "
          "numbers (--dim NAME=NUMBER), or say which are equal (--dim NAME=OTHER)",
          result_.ranges.size(), kMaxSymbols);
    if (fixed.empty()) return;
    for (GraphInput& input : result_.inputs)
      for (Dim& dim : input.type.shape) dim = dim.substitute(fixed);
  }

  std::string input_names() const {
    std::vector<std::string> names;
    for (const GraphInput& input : result_.inputs) names.push_back("'" + input.name + "'");
    return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
  }

  const onnx::GraphProto& graph_;
  const std::unordered_set<std::string>& initializers_;
  const ImportOptions& options_;
  std::map<std::string, Shape> shapes_;  // given shapes, including those of given values
  std::vector<std::string>& warnings_;
  ModelTexts& texts_;
  SymbolNames symbols_;
  Replacements replacements_;
  GraphInputs result_;
};

}  // namespace

std::string symbol_name(std::string name) {
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return is_name(name) ? name : "d_" + name;
}

GraphInputs read_inputs(const onnx::GraphProto& graph,
                        const std::unordered_set<std::string>& initializers,
                        const ImportOptions& options, std::vector<std::string>& warnings,
                        ModelTexts& texts) {
  return InputReader(graph, initializers, options, warnings, texts).read();
}

std::vector<std::string> inputs_without_rank(const onnx::GraphProto& graph,
                                             const ImportOptions& options) {
  std::set<std::string> known;
  for (const auto& tensor : graph.initializer()) known.insert(tensor.name());
  for (const auto& [name, shape] : options.input_shapes) known.insert(name);
  for (const auto& [name, rank] : options.input_ranks) known.insert(name);
  for (const auto& [name, value] : options.input_values) known.insert(name);
  std::vector<std::string> names;
  for (const auto& input : graph.input())
    if (input.type().has_tensor_type() && !input.type().tensor_type().has_shape() &&
        !known.contains(input.name()))
      names.push_back(input.name());
  return names;
}

}  // namespace sinter::frontend
