// SPDX-License-Identifier: Apache-2.0
#include "ir/graph_checks.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

namespace sinter::ir {
namespace {

[[noreturn]] void invalid(std::string message) {
  throw Error(ErrorCode::kInvalidModel, std::move(message));
}

/// A body that computes a part of a node: see OpDef::body_inputs.
void check_part(const Graph& body, const std::vector<TensorType>& inputs) {
  const auto list = [](const std::vector<TensorType>& types) {
    std::vector<std::string> texts;
    for (const TensorType& type : types) texts.push_back(to_string(type));
    return fmt::format("{}", fmt::join(texts, ", "));
  };
  const auto own = body.types(body.inputs()), made = body.types(body.outputs());
  if (own != inputs)
    invalid(fmt::format("its body must take {}, but takes {}", list(inputs), list(own)));
  const auto fits_rows = [&](const TensorType& type) {
    const Shape &rows = inputs[0].shape, &shape = type.shape;
    bool fits = type.dtype == inputs[0].dtype && shape.size() <= rows.size();
    for (std::size_t d = 1; fits && d <= shape.size(); ++d)
      fits = shape.end()[-static_cast<std::ptrdiff_t>(d)] == Dim(1) ||
             (d > 1 && shape.end()[-static_cast<std::ptrdiff_t>(d)] ==
                           rows.end()[-static_cast<std::ptrdiff_t>(d)]);
    return fits;
  };
  if (made.empty() || made.size() > 2 || !(made[0] == inputs[0]) ||
      (made.size() == 2 && !fits_rows(made[1])))
    invalid(fmt::format("its body must make {}, and at most a number of each row, but makes {}",
                        to_string(inputs[0]), list(made)));
}

}  // namespace

std::string describe(const OpDef& op, std::span<const std::string> origins) {
  if (origins.empty()) return op.name;
  return fmt::format("{} (from {})", op.name, fmt::join(origins, ", "));
}

void check_type(const TensorType& type) {
  const auto refuse = [&](ErrorCode code, std::string_view why) {
    throw Error(code, fmt::format("{}: {}", to_string(type), why));
  };
  if (type.shape.size() > kMaxRank)
    throw Error(ErrorCode::kUnsupported,
                fmt::format("a tensor of {} dimensions: at most {} are supported",
                            type.shape.size(), kMaxRank));
  std::int64_t count = 1;
  bool is_empty = false;
  for (const Dim& dim : type.shape) {
    if (!dim.is_constant()) {
      if (is_longer(dim, kMaxDimSize))
        throw Error(ErrorCode::kUnsupported,
                    fmt::format("a dimension is a formula of more than {} symbols and functions: "
                                "give some of the model's dimensions as numbers (--dim)",
                                kMaxDimSize));
      continue;
    }
    if (dim.value() < 0) refuse(ErrorCode::kInvalidModel, "a dimension is negative");
    is_empty = is_empty || dim.value() == 0;
    if (__builtin_mul_overflow(count, dim.value(), &count) || count > kMaxElements)
      count = kMaxElements + 1;
  }
  if (count > kMaxElements && !is_empty)
    refuse(ErrorCode::kUnsupported,
           fmt::format("more than {} elements cannot be addressed", kMaxElements));
}

Attrs complete_attrs(const OpDef& op, Attrs attrs) {
  for (const auto& [name, value] : attrs.values()) {
    const bool known = std::ranges::any_of(
        op.attrs, [&key = name](const AttrSpec& spec) { return spec.name == key; });
    if (!known) invalid(fmt::format("unknown attribute '{}'", name));
  }
  for (const auto& spec : op.attrs) {
    if (!attrs.has(spec.name)) {
      if (!spec.default_value) invalid(fmt::format("attribute '{}' is missing", spec.name));
      attrs.set(spec.name, *spec.default_value);
      continue;
    }
    const Attr& value = attrs.get(spec.name);
    const auto found = static_cast<AttrKind>(value.index());
    if (found == spec.kind) continue;
    if (found == AttrKind::kInt && spec.kind == AttrKind::kFloat) {
      attrs.set(spec.name, static_cast<double>(std::get<std::int64_t>(value)));
    } else if (found == AttrKind::kInts && spec.kind == AttrKind::kDims) {
      const auto ints = std::get<Ints>(value);
      attrs.set(spec.name, std::vector<Dim>(ints.begin(), ints.end()));
    } else {
      invalid(fmt::format("attribute '{}' is of kind {}, but must be of kind {}", spec.name,
                          to_string(found), to_string(spec.kind)));
    }
  }
  return attrs;
}

std::vector<TensorType> infer_types(const OpDef& op, const Attrs& attrs, Types inputs,
                                    const Graph* body) {
  const auto count = static_cast<int>(inputs.size());
  if (count < op.min_inputs || (op.max_inputs >= 0 && count > op.max_inputs)) {
    std::string expected = std::to_string(op.min_inputs);
    if (op.max_inputs < 0)
      expected = fmt::format("at least {}", op.min_inputs);
    else if (op.max_inputs != op.min_inputs)
      expected = fmt::format("{} to {}", op.min_inputs, op.max_inputs);
    invalid(fmt::format("has {} inputs, but takes {}", count, expected));
  }
  if (!op.has_body && body != nullptr && op.body_inputs) {
    std::vector<TensorType> types = infer_types(op, attrs, inputs, nullptr);
    check_part(*body, op.body_inputs(attrs, inputs));
    return types;
  }
  if (op.has_body != (body != nullptr))
    invalid(body != nullptr ? "has a body, but is of an operator without one"
                            : "is without a body, which says what it computes");
  if (!body) {
    std::vector<TensorType> types = op.infer(attrs, inputs);
    for (const TensorType& type : types) check_type(type);
    return types;
  }
  if (body->inputs().size() != inputs.size())
    invalid(fmt::format("has {} inputs, but its body has {}", count, body->inputs().size()));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorType& type = body->type(body->inputs()[i]);
    if (!(type == inputs[i]))
      invalid(fmt::format("input {} is {}, but the body's input is {}", i, to_string(inputs[i]),
                          to_string(type)));
  }
  std::vector<TensorType> types = body->types(body->outputs());
  if (op.kind == OpKind::kFused) return types;
  const std::vector<TensorType> states = op.infer(attrs, inputs);
  if (states.empty()) return types;  // of a node defined by its body
  if (types.size() != states.size())
    invalid(fmt::format("has {} states, but its body has {} outputs", states.size(), types.size()));
  for (std::size_t i = 0; i < states.size(); ++i)
    if (types[i] != states[i])
      invalid(fmt::format("state {} is {}, but {} after an iteration", i, to_string(states[i]),
                          to_string(types[i])));
  return types;
}

namespace {

void add_symbols(std::span<const Dim> dims, std::set<std::string>& symbols) {
  for (const Dim& dim : dims)
    for (std::string& symbol : dim.symbols()) symbols.insert(std::move(symbol));
}

void add_symbols(const Node& node, std::set<std::string>& symbols) {
  for (const auto& [name, attr] : node.attrs.values())
    if (const auto* dims = std::get_if<std::vector<Dim>>(&attr)) add_symbols(*dims, symbols);
  if (!node.body) return;
  std::set<std::string> of_body;
  for (const Value& value : node.body->values()) add_symbols(value.type.shape, of_body);
  for (const Node& inner : node.body->nodes()) add_symbols(inner, of_body);
  // Symbols that the body computes are local to it.
  for (const Node& inner : node.body->nodes())
    if (inner.op->kind == OpKind::kExtent) of_body.erase(inner.attrs.get_string("symbol"));
  symbols.merge(of_body);
}

}  // namespace

std::set<std::string> named_symbols(const Node& node, Types outputs) {
  std::set<std::string> symbols;
  for (const TensorType& type : outputs) add_symbols(type.shape, symbols);
  add_symbols(node, symbols);
  return symbols;
}

void check_states(const Graph& graph) {
  for (const State& state : graph.states()) {
    if (state.input < 0 || static_cast<std::size_t>(state.input) >= graph.inputs().size() ||
        state.output < 0 || static_cast<std::size_t>(state.output) >= graph.outputs().size())
      invalid(
          fmt::format("state from output {} to input {}: the graph has {} outputs and {} inputs",
                      state.output, state.input, graph.outputs().size(), graph.inputs().size()));
    const ValueId input = graph.inputs()[static_cast<std::size_t>(state.input)];
    const ValueId output = graph.outputs()[static_cast<std::size_t>(state.output)];
    if (!(graph.type(input) == graph.type(output)))
      invalid(fmt::format("state from output {} to input {} ('{}'): types {} and {} differ",
                          state.output, state.input, graph.value(input).name,
                          to_string(graph.type(output)), to_string(graph.type(input))));
  }
}

void check_range(const std::string& symbol, const Range& range) {
  if (range.min > range.max)
    invalid(fmt::format("dimension '{}' has an empty range {}..{}", symbol, range.min, range.max));
}

bool is_size_check(const Node& node, const Ranges& ranges) {
  if (node.op->kind != OpKind::kExtent) return false;
  const auto range = ranges.find(node.attrs.get_string("symbol"));
  return range != ranges.end() && range->second.from_data && range->second.min == range->second.max;
}

}  // namespace sinter::ir
