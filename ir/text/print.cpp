// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>
#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/dim/dim_internal.h"
#include "ir/text/lexer.h"
#include "ir/text/text.h"

namespace sinter::ir {
namespace {

std::string symbol_text(const std::string& name) {
  return is_plain_symbol(name) ? name : quote(name);
}

std::string ranges_text(const Ranges& ranges) {
  std::vector<std::string> parts;
  for (const auto& [symbol, range] : ranges) {
    std::string part = fmt::format("{}: {}..", symbol_text(symbol), range.min);
    if (range.max != INT64_MAX) part += std::to_string(range.max);
    if (range.symbolic_max) part += " max " + range.symbolic_max->to_string();
    if (range.from_data) part += " data";
    parts.push_back(std::move(part));
  }
  return fmt::format("ranges {{{}}}", fmt::join(parts, ", "));
}

std::string attr_text(const Attr& attr) {
  struct Visitor {
    std::string operator()(std::int64_t value) const { return std::to_string(value); }
    std::string operator()(double value) const {
      std::byte bytes[sizeof(double)];
      store_double(DType::kFloat64, bytes, value);
      return text::element_text(DType::kFloat64, bytes);
    }
    std::string operator()(const std::string& value) const { return quote(value); }
    std::string operator()(const Ints& values) const {
      return fmt::format("[{}]", fmt::join(values, ", "));
    }
    std::string operator()(const std::vector<Dim>& values) const { return to_string(values); }
    std::string operator()(DType value) const { return std::string(to_string(value)); }
  };
  return std::visit(Visitor(), attr);
}

/// What parsing fills in by itself.
bool is_default(const OpDef& op, std::string_view name, const Attr& attr) {
  const auto spec = std::ranges::find(op.attrs, name, &AttrSpec::name);
  return spec != op.attrs.end() && spec->default_value &&
         Attrs{{std::string(name), *spec->default_value}} == Attrs{{std::string(name), attr}};
}

// Quotes a name that would not parse back in a comma-separated list on one line.
std::string origin_text(const std::string& name) {
  const bool plain = !name.empty() && name.front() != '"' && name.front() != ' ' &&
                     name.back() != ' ' && name.back() != ',' &&
                     name.find_first_of("\n\r\t") == std::string::npos &&
                     name.find(", ") == std::string::npos;
  return plain ? name : quote(name);
}

class Printer {
 public:
  Printer(const Graph& graph, const PrintOptions& options, int indent)
      : graph_(graph), options_(options), indent_(indent), names_(graph.values().size()) {
    for (const ValueId id : graph.inputs()) give_name(id);
  }

  std::string header() {
    std::vector<std::string> inputs;
    for (const ValueId id : graph_.inputs())
      inputs.push_back(fmt::format("{}: {}", name_of(id), to_string(graph_.type(id))));
    std::string text =
        fmt::format("graph @{}({})", text::name_text(graph_.name()), fmt::join(inputs, ", "));
    if (!graph_.ranges().empty()) text += " " + ranges_text(graph_.ranges());
    return text + states_text();
  }

  std::string body_header(const Ranges& outer) {
    std::string text = "body";
    if (graph_.name() != "main") text += " @" + text::name_text(graph_.name());
    text += fmt::format("({})", fmt::join(names(graph_.inputs()), ", "));
    if (graph_.ranges() != outer) text += " " + ranges_text(graph_.ranges());
    return text + states_text();
  }

  std::string block() {
    std::string text;
    for (const Node& node : graph_.nodes()) {
      for (const ValueId id : node.inputs) text += constant_line(id);
      text += node_line(node);
    }
    for (const ValueId id : graph_.outputs()) text += constant_line(id);
    std::vector<std::string> results;
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      const std::string& name = graph_.output_names()[i];
      results.push_back((name.empty() ? "" : text::name_text(name) + " = ") +
                        name_of(graph_.outputs()[i]));
    }
    return text + margin() + fmt::format("return {}\n", fmt::join(results, ", "));
  }

 private:
  std::string margin() const { return std::string(static_cast<std::size_t>(indent_) * 2, ' '); }

  void give_name(ValueId id) {
    std::string& text = names_[id.position()];
    if (!text.empty()) return;
    const std::string& name = graph_.value(id).name;
    text = "%" + (!name.empty() && taken_.insert(name).second ? text::name_text(name)
                                                              : std::to_string(next_number_++));
  }

  const std::string& name_of(ValueId id) const { return names_[id.position()]; }

  std::vector<std::string> names(const std::vector<ValueId>& ids) const {
    std::vector<std::string> result;
    for (const ValueId id : ids) result.push_back(name_of(id));
    return result;
  }

  std::string states_text() const {
    if (graph_.states().empty()) return "";
    std::vector<std::string> parts;
    for (const State& state : graph_.states())
      parts.push_back(fmt::format("output {} -> input {}", state.output, state.input));
    return fmt::format(" states {{{}}}", fmt::join(parts, ", "));
  }

  /// The line of a constant that has not been printed yet, or nothing.
  std::string constant_line(ValueId id) {
    const Value& value = graph_.value(id);
    if (!value.constant || !name_of(id).empty()) return "";
    give_name(id);
    const Tensor tensor = value.constant->plain();  // printing is no decision: plain
    if (options_.constants != nullptr) options_.constants->push_back(value.constant);
    return margin() + fmt::format("{} = const {}\n", name_of(id), constant_text(tensor, options_));
  }

  std::string node_line(const Node& node) {
    const std::vector<std::string> inputs = names(node.inputs);
    for (const ValueId id : node.outputs) give_name(id);
    std::vector<std::string> attrs, types;
    for (const auto& [name, attr] : node.attrs.values())
      if (!is_default(*node.op, name, attr))
        attrs.push_back(fmt::format("{} = {}", name, attr_text(attr)));
    for (const ValueId id : node.outputs) types.push_back(to_string(graph_.type(id)));
    std::string line = margin() + fmt::format("{} = {}({})", fmt::join(names(node.outputs), ", "),
                                              node.op->name, fmt::join(inputs, ", "));
    if (!attrs.empty()) line += fmt::format(" {{{}}}", fmt::join(attrs, ", "));
    line += fmt::format(" : {}", fmt::join(types, ", "));
    std::string origins;
    if (options_.origins && !node.origins.empty()) {
      std::vector<std::string> parts;
      for (const auto& origin : node.origins) parts.push_back(origin_text(origin));
      origins = fmt::format("  # from {}", fmt::join(parts, ", "));
    }
    if (!node.body) return line + origins + "\n";
    Printer body(*node.body, options_, indent_ + 1);
    return line + " " + body.body_header(graph_.ranges()) + " {" + origins + "\n" + body.block() +
           margin() + "}\n";
  }

  const Graph& graph_;
  const PrintOptions& options_;
  int indent_;
  std::vector<std::string> names_;  // by value, with '%'; empty until assigned
  std::unordered_set<std::string> taken_;
  int next_number_ = 0;
};

void collect_constants(const Graph& graph, ConstantPool& pool) {
  for (const Value& value : graph.values())
    if (value.constant) pool.emplace(value.constant->hash(), value.constant);
  for (const Node& node : graph.nodes())
    if (node.body) collect_constants(*node.body, pool);
}

}  // namespace

std::string constant_text(const Tensor& tensor, const PrintOptions& options) {
  std::string contents;
  if (static_cast<std::size_t>(tensor.element_count()) > options.inline_limit) {
    contents = fmt::format("#{:016x}", tensor.hash());
  } else {
    std::vector<std::string> elements;
    for (std::size_t i = 0; i < static_cast<std::size_t>(tensor.element_count()); ++i)
      elements.push_back(
          text::element_text(tensor.dtype(), tensor.bytes().data() + i * size_of(tensor.dtype())));
    contents = fmt::format("{{{}}}", fmt::join(elements, ", "));
  }
  return to_string(tensor.type()) + " " + contents;
}

std::string print(const Graph& graph, const PrintOptions& options) {
  Printer printer(graph, options, 1);
  const std::string header = printer.header();
  return header + " {\n" + printer.block() + "}\n";
}

ConstantPool constant_pool(const Graph& graph) {
  ConstantPool pool;
  collect_constants(graph, pool);
  return pool;
}

}  // namespace sinter::ir
