// SPDX-License-Identifier: Apache-2.0
#include "fusion/mixtures/expert_template.h"

#include <algorithm>

#include <fmt/format.h>

#include "fusion/patterns/producer.h"
#include "fusion/regions/rebuild.h"
#include "ir/scale_format.h"

namespace sinter::fusion {

ExpertTemplate::ExpertTemplate(const Graph& graph, const TargetTraits& target,
                               std::vector<ExpertBranch> branches)
    : graph_(graph), target_(target), branches_(std::move(branches)) {
  std::ranges::sort(branches_, {}, &ExpertBranch::expert);
  row_count_ = branches_[0].tokens * Dim(branches_[0].chosen);
}

std::optional<std::size_t> ExpertTemplate::fail(std::string why) {
  if (why_.empty()) why_ = std::move(why);
  return std::nullopt;
}

std::size_t ExpertTemplate::add(Step step) {
  known_.emplace(step.values[0], steps_.size());
  steps_.push_back(std::move(step));
  return steps_.size() - 1;
}

bool ExpertTemplate::match() {
  for (std::size_t i = 1; i < branches_.size(); ++i)
    if (branches_[i].expert == branches_[i - 1].expert)
      return fail(fmt::format("expert {} is computed twice", branches_[i].expert)).has_value();
  if (branches_[0].expert < 0) return fail("an expert's number is negative").has_value();
  std::vector<ValueId> rows;
  for (const ExpertBranch& branch : branches_) rows.push_back(branch.rows);
  const auto result = step_of(rows);
  if (!result) return false;
  const bool has_product =
      std::ranges::any_of(steps_, [](const Step& step) { return step.kind == Kind::kProduct; });
  if (!has_product) return fail("no expert has a matrix of its own").has_value();
  result_ = *result;
  find_route();
  find_reads();
  return true;
}

/// The choices and the shares may be those of one Route.
void ExpertTemplate::find_route() {
  for (const Step& step : steps_) {
    if (step.kind != Kind::kChoices || step.by_expert || routing_) continue;
    if (graph_.type(branches_[0].choices).shape.size() != 2) continue;
    routing_ = find_routing(graph_, branches_[0].choices, step.data);
  }
}

void ExpertTemplate::find_reads() {
  const auto read = [&](ValueId value) {
    if (value.valid() && std::ranges::count(reads_, value) == 0) reads_.push_back(value);
  };
  if (routing_) {
    read(routing_->logits);
    read(routing_->bias);
  } else {
    read(branches_[0].choices);
  }
  for (const Step& step : steps_) {
    if (!routing_ || step.data != routing_->shares) read(step.data);
    if (step.kind == Kind::kOuter) read(step.values[0]);
  }
}

// ---- Shapes

std::optional<std::size_t> ExpertTemplate::row_axis(ValueId value, std::size_t branch) const {
  const Shape& shape = graph_.type(value).shape;
  const auto at = std::ranges::find(shape, branches_[branch].selected);
  return at == shape.end() ? std::nullopt : std::optional<std::size_t>(at - shape.begin());
}

/// With the number of all choices in place of those of one expert.
Shape ExpertTemplate::common_shape(ValueId value) const {
  Shape shape = graph_.type(value).shape;
  for (Dim& dim : shape)
    if (dim == branches_[0].selected) dim = row_count_;
  return shape;
}

Attrs ExpertTemplate::common_attrs(const Node& node, std::size_t branch) const {
  Attrs attrs = node.attrs;
  const std::map<std::string, Dim, std::less<>> common{
      {*branches_[branch].selected.as_symbol(), row_count_}};
  for (const auto& [name, attr] : node.attrs.values())
    if (const auto* dims = std::get_if<std::vector<Dim>>(&attr)) {
      std::vector<Dim> own = *dims;
      for (Dim& dim : own) dim = dim.substitute(common);
      attrs.set(name, std::move(own));
    }
  return attrs;
}

/// Whether each row of the result is made of the same row of its operands. Rows are along the
/// dimension of the selected choices, which all shapes have once or not at all.
bool ExpertTemplate::is_row_wise(const Node& node) const {
  const Shape& shape = graph_.type(node.outputs[0]).shape;
  const auto axis = row_axis(node.outputs[0], 0);
  if (!axis || node.outputs.size() != 1) return false;
  const std::string& op = node.op->name;
  if (node.op->kind == OpKind::kPointwise)
    return std::ranges::all_of(node.inputs, [&](ValueId input) {
      const auto own = row_axis(input, 0);
      const std::size_t missing = shape.size() - graph_.type(input).shape.size();
      if (own) return *own + missing == *axis;
      return *axis < missing || graph_.type(input).shape[*axis - missing] == Dim(1);
    });
  const auto own = row_axis(node.inputs[0], 0);
  if (!own) return false;
  const Shape& from = graph_.type(node.inputs[0]).shape;
  if (op == "Reshape") {
    const auto is_one = [](const Dim& dim) { return dim == Dim(1); };
    return std::all_of(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(*own), is_one) &&
           std::all_of(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(*axis), is_one);
  }
  if (op == "Transpose")
    return node.attrs.get_ints("perm")[*axis] == static_cast<std::int64_t>(*own);
  if (op == "Expand") return *own + shape.size() - from.size() == *axis;
  if (op == "Slice")
    return own == axis && node.attrs.get_dims("starts")[*axis] == Dim(0) &&
           node.attrs.get_ints("steps")[*axis] == 1;
  if (op == "Concat")
    return node.attrs.get_int("axis") != static_cast<std::int64_t>(*axis) &&
           std::ranges::all_of(node.inputs,
                               [&](ValueId input) { return row_axis(input, 0) == axis; });
  if (node.op->kind == OpKind::kReduce)
    return std::ranges::count(node.attrs.get_ints("axes"), static_cast<std::int64_t>(*own)) == 0;
  if (op == "Softmax" || op == "RmsNorm" || op == "LayerNorm")
    return node.attrs.get_int("axis") > static_cast<std::int64_t>(*axis) && own == axis;
  return op == "MatMul" && *own + 1 < from.size() && own == axis;
}

// ---- Steps

std::optional<std::size_t> ExpertTemplate::step_of(const std::vector<ValueId>& values) {
  if (const auto known = known_.find(values[0]); known != known_.end()) {
    if (steps_[known->second].values == values) return known->second;
    return fail("experts share their results in different ways");
  }
  constexpr std::size_t kMostSteps = 256;
  if (steps_.size() > kMostSteps) return fail("an expert has too many operators");
  return row_axis(values[0], 0) ? step_of_rows(values) : step_without_rows(values);
}

std::optional<std::size_t> ExpertTemplate::step_without_rows(const std::vector<ValueId>& values) {
  if (std::ranges::all_of(values, [&](ValueId value) { return value == values[0]; }))
    return add({.kind = Kind::kOuter, .values = values});
  for (const ValueId value : values)
    if (!graph_.is_constant(value) || graph_.type(value) != graph_.type(values[0]))
      return fail("experts differ in a value that is not constant, or in its type");
  return add({.kind = Kind::kOwn, .values = values});
}

std::optional<std::size_t> ExpertTemplate::step_of_rows(const std::vector<ValueId>& values) {
  const Node* first = graph_.producer(values[0]);
  if (first == nullptr) return fail("an expert's rows are an input");
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Node* own = graph_.producer(values[i]);
    const auto axis = row_axis(values[i], i);
    const Shape& shape = graph_.type(values[i]).shape;
    const std::string symbol = *branches_[i].selected.as_symbol();
    // Rows are along one dimension.
    const auto counts = std::ranges::count_if(
        shape, [&](const Dim& dim) { return std::ranges::count(dim.symbols(), symbol) != 0; });
    if (own == nullptr || !axis || counts != 1 || own->op != first->op ||
        own->inputs.size() != first->inputs.size() || own->outputs.size() != 1 || own->body)
      return fail(fmt::format("'{}' is not the same operator on rows in all experts",
                              describe(own != nullptr ? *own : *first)));
  }
  if (first->op->take() != nullptr) return take(values);
  if (first->op->name == "MatMul" && !row_axis(first->inputs[1], 0)) {
    std::vector<ValueId> matrices;
    for (const ValueId value : values) matrices.push_back(graph_.producer(value)->inputs[1]);
    if (std::ranges::any_of(matrices, [&](ValueId each) { return each != matrices[0]; }))
      return product(values);
  }
  return node(values);
}

std::optional<std::size_t> ExpertTemplate::node(const std::vector<ValueId>& values) {
  const Node& first = *graph_.producer(values[0]);
  if (!is_row_wise(first))
    return fail(fmt::format("'{}' does not compute rows independently", describe(first)));
  const Attrs attrs = common_attrs(first, 0);
  Step step{.values = values};
  for (std::size_t i = 1; i < values.size(); ++i)
    if (!(common_attrs(*graph_.producer(values[i]), i) == attrs))
      return fail(fmt::format("'{}' differs between experts", describe(first)));
  for (std::size_t operand = 0; operand < first.inputs.size(); ++operand) {
    std::vector<ValueId> inputs;
    for (const ValueId value : values) inputs.push_back(graph_.producer(value)->inputs[operand]);
    const auto input = step_of(inputs);
    if (!input) return std::nullopt;
    if (steps_[*input].kind == Kind::kOwn && first.op->kind != OpKind::kPointwise)
      return fail(fmt::format("'{}' has constants of each expert", describe(first)));
    if (steps_[*input].kind == Kind::kOwn) {
      // Constants of a row: one number, or one for each column.
      const Shape& own = graph_.type(inputs[0]).shape;
      const std::size_t axis = *row_axis(values[0], 0),
                        missing = graph_.type(values[0]).shape.size() - own.size();
      for (std::size_t d = 0; d < own.size(); ++d)
        if (d + missing <= axis && own[d] != Dim(1))
          return fail(fmt::format("'{}' has constants in front of rows", describe(first)));
    }
    step.inputs.push_back(*input);
  }
  return add(std::move(step));
}

std::string ExpertTemplate::target_lacks(const Node& matmul) const {
  const DType x = graph_.type(matmul.inputs[0]).dtype;
  const auto format = ir::ProductFormats(matmul.attrs).w;
  const std::string_view codes = format ? std::string_view(format->codes->name) : to_string(x);
  const ir::OperandFormats* row = target_.takes("GroupedMatMul", x, codes, format.has_value());
  if (row == nullptr)
    return fmt::format("this target has no grouped matmul of {} with {}", to_string(x), codes);
  if (std::ssize(branches_) > row->most)
    return fmt::format("this target's grouped matmuls have at most {} groups", row->most);
  return "";
}

std::optional<std::size_t> ExpertTemplate::product(const std::vector<ValueId>& values) {
  const Node& first = *graph_.producer(values[0]);
  const Shape& from = graph_.type(first.inputs[0]).shape;
  const auto axis = row_axis(first.inputs[0], 0);
  const ir::ProductFormats formats(first.attrs);
  const bool is_matrix = axis && *axis + 2 == from.size() &&
                         std::count(from.begin(), from.end(), Dim(1)) >= std::ssize(from) - 2;
  if (!is_matrix || formats.x || *axis != graph_.type(values[0]).shape.size() - 2)
    return fail(fmt::format("'{}' has other operands than rows and a matrix", describe(first)));
  if (std::string no = target_lacks(first); !no.empty()) return fail(std::move(no));
  Step step{.kind = Kind::kProduct, .values = values};
  // [n, k] and its transpose.
  step.transposed = !formats.w && std::ranges::all_of(values, [&](ValueId value) {
    const Node* view = producer_of(graph_, graph_.producer(value)->inputs[1], "Transpose");
    return view != nullptr && view->attrs.get_ints("perm") == Ints{1, 0} &&
           graph_.is_constant(view->inputs[0]);
  });
  for (std::size_t operand = 0; operand < first.inputs.size(); ++operand) {
    std::vector<ValueId> inputs;
    for (const ValueId value : values) {
      const Node& own = *graph_.producer(value);
      if (!(own.attrs == first.attrs))
        return fail(fmt::format("weights of '{}' have other formats than the first expert's",
                                describe(own)));
      ValueId input = own.inputs[operand];
      if (operand > 0 && step.transposed) input = graph_.producer(input)->inputs[0];
      inputs.push_back(input);
    }
    const auto input = step_of(inputs);
    if (!input) return std::nullopt;
    Step& made = steps_[*input];
    // Scales may be the same of all.
    if (operand > 0 && made.kind == Kind::kOuter && graph_.is_constant(inputs[0]))
      made.kind = Kind::kOwn;
    if (operand > 0 && (made.kind != Kind::kOwn || graph_.type(inputs[0]).shape.size() != 2))
      return fail(fmt::format("weights of '{}' are no constant matrix", describe(first)));
    step.inputs.push_back(*input);
  }
  return add(std::move(step));
}

// ---- Rows that are taken

/// What one branch takes from outside: its value, and how.
std::optional<ExpertTemplate::Step> ExpertTemplate::taken(ValueId value, std::size_t branch) {
  ExpertBranch& own = branches_[branch];
  const Node& node = *graph_.producer(value);
  const Shape& shape = graph_.type(value).shape;
  const std::vector<Dim> index = own.elements.symbols(shape);
  const std::size_t axis = *row_axis(value, branch);
  own.elements.set_row(index[axis]);
  // Rows of a value: the token is the index of one dimension, others are the result's, in order.
  const auto place = own.elements.taken(node, index);
  const bool is_one = own.tokens == Dim(1);
  const auto is_row_of_data = [&] {
    if (!place) return false;
    const Shape& data = graph_.type(place->value).shape;
    std::vector<Dim> rest;  // of the result, behind its rows
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (d < axis && shape[d] != Dim(1)) return false;
      if (d > axis && shape[d] != Dim(1)) rest.push_back(index[d]);
    }
    std::size_t next = 0;
    bool found = false;
    for (std::size_t d = 0; d < data.size(); ++d) {
      const Dim& at = place->index[d];
      if (!found && data[d] == own.tokens && at == own.token && (!is_one || d + 2 >= data.size()))
        found = true;
      else if (data[d] == Dim(1))
        continue;
      else if (!found || next == rest.size() || at != rest[next++])
        return false;
    }
    return found && next == rest.size() && next > 0;
  };
  if (is_row_of_data()) return Step{.kind = Kind::kTokens, .data = place->value};
  // One element for each choice, in all of the row.
  const auto source = own.elements.source(value, index);
  if (!source) return std::nullopt;
  const Shape& from = graph_.type(source->value).shape;
  const Shape& choices = graph_.type(own.choices).shape;
  Step step{.kind = Kind::kChoices, .data = source->value};
  if (from == choices) {
    const bool fits =
        source->index[0] == own.token && (from.size() == 1 || source->index[1] == own.slot);
    return fits ? std::optional(step) : std::nullopt;
  }
  step.by_expert = true;
  if (from.size() != 2 || from[0] != own.tokens || source->index[0] != own.token ||
      source->index[1] != Dim(own.expert))
    return std::nullopt;
  return step;
}

std::optional<std::size_t> ExpertTemplate::take(const std::vector<ValueId>& values) {
  Step step;
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto own = taken(values[i], i);
    if (!own || (i > 0 && (own->kind != step.kind || own->data != step.data ||
                           own->by_expert != step.by_expert)))
      return fail(fmt::format("'{}' takes other than the rows or shares of the choices",
                              describe(*graph_.producer(values[i]))));
    if (i == 0) step = std::move(*own);
  }
  step.values = values;
  return add(std::move(step));
}

}  // namespace sinter::fusion
