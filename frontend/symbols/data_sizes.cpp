// SPDX-License-Identifier: Apache-2.0
#include "frontend/symbols/data_sizes.h"

#include <algorithm>

#include "runtime/format_error.h"

namespace sinter::frontend {

std::string DataSizes::unique(const std::string& name) const {
  std::string symbol = name;
  for (int i = 1; builder_.ranges().contains(symbol); ++i) symbol = fmt::format("{}#{}", name, i);
  return symbol;
}

Dim DataSizes::size(ValueId count, const std::string& name, const std::optional<Dim>& most) {
  if (const auto held = folder_.contents(count); held && held->size() == 1) return held->front();
  if (builder_.type(count).dtype != DType::kInt64)
    count = builder_.add("Cast", {count}, {{"to", DType::kInt64}});
  if (!builder_.type(count).shape.empty())
    count = builder_.add("Reshape", {count}, {{"shape", std::vector<Dim>{}}});
  if (const auto known = known_.find(count); known != known_.end()) return known->second;
  return new_size(count, name, most);
}

Dim DataSizes::new_size(ValueId count, const std::string& name, const std::optional<Dim>& most) {
  const std::string symbol = unique(name);
  std::optional<Dim> bound = most;
  if (const auto given = bound_of(name))
    bound = bound ? ir::min(*bound, Dim(*given), builder_.ranges()) : Dim(*given);
  if (!bound) {
    folder_.need(count);
    throw unsupported_error(
        "its size follows from data and nothing bounds it: give the most that it may be with "
        "--bound '{}=N'",
        name);
  }
  if (*bound == Dim(0)) return 0;
  ir::Range range;
  range.min = 0;
  range.max = ir::upper_bound(*bound, builder_.ranges()).value_or(INT64_MAX);
  if (!bound->is_constant()) range.symbolic_max = std::make_shared<const Dim>(*bound);
  range.from_data = true;
  builder_.range(symbol, range);
  const ValueId extent = builder_.add("Extent", {count}, {{"symbol", symbol}});
  Dim size = Dim::symbol(symbol);
  folder_.assume(extent, size);
  folder_.assume(count, size);
  known_.emplace(count, size);
  known_.emplace(extent, size);
  return size;
}

void DataSizes::require_zero(ValueId value, const std::string& name) {
  const std::string symbol = unique(name);
  builder_.range(symbol, {.min = 0, .max = 0, .from_data = true});
  builder_.add("Extent", {value}, {{"symbol", symbol}});
}

void DataSizes::note_value(ValueId value, const std::string& name) {
  const auto given = bounds_.find(name);
  if (given == bounds_.end()) return;
  const ir::TensorType type = builder_.type(value);
  const auto count = ir::element_count(type.shape);
  constexpr std::int64_t kMostElements = 256;
  if (!is_integer(type.dtype) || !count.is_constant() || count.value() > kMostElements)
    throw usage_error("--bound {}: that value is {}; sizes are a few integers", name,
                      ir::to_string(type));
  used_.insert(name);
  if (folder_.contents(value)) return;
  std::vector<Dim> elements;
  for (std::int64_t i = 0; i < count.value(); ++i) {
    const ValueId flat = builder_.add("Reshape", {value}, {{"shape", std::vector<Dim>{count}}});
    const ValueId one = count == Dim(1) ? value
                                        : builder_.add("Slice", {flat},
                                                       {{"starts", std::vector<Dim>{Dim(i)}},
                                                        {"steps", ir::Ints{1}},
                                                        {"shape", std::vector<Dim>{Dim(1)}}});
    elements.push_back(
        size(one, count == Dim(1) ? name : fmt::format("{}[{}]", name, i), Dim(given->second)));
  }
  folder_.assume(value, elements);
}

ValueId DataSizes::with_short_sizes(ValueId value, const std::string& name) {
  constexpr int kLong = 8;
  ir::Shape shape = builder_.type(value).shape;
  bool changed = false;
  for (Dim& dim : shape) {
    if (dim.is_constant() || !ir::is_longer(dim, kLong) ||
        !ir::is_from_data({&dim, 1}, builder_.ranges()))
      continue;
    auto known = short_.find(dim);
    if (known == short_.end()) {
      // Not folder_.scalar_of, since the folder knows its contents.
      const ValueId count = builder_.add("Size", {}, {{"value", std::vector<Dim>{dim}}});
      known = short_.emplace(dim, new_size(count, name, ir::largest(dim, builder_.ranges()))).first;
    }
    dim = known->second;
    changed = true;
  }
  if (!changed) return value;
  return builder_.add("Slice", {value},
                      {{"starts", std::vector<Dim>(shape.size(), Dim(0))},
                       {"steps", ir::Ints(shape.size(), 1)},
                       {"shape", shape}});
}

std::optional<ValueId> DataSizes::with_all_places(ValueId value, const Dim& from, const Dim& to) {
  const auto symbol = from.as_symbol();
  if (!symbol || ir::largest(from, builder_.ranges()) != to) return std::nullopt;
  const ir::Node* node = builder_.producer(value);
  if (node == nullptr) return std::nullopt;
  if (node->op->name == "SelectIndices")
    return node->attrs.get_dims("count")[0] == from
               ? std::optional(folder_.iota(to, builder_.type(value).dtype))
               : std::nullopt;
  if (node->op->name != "Reshape" && node->op->name != "Transpose") return std::nullopt;
  const std::string op = node->op->name;
  ir::Attrs attrs = node->attrs;
  const auto input = with_all_places(node->inputs[0], from, to);
  if (!input) return std::nullopt;
  if (op == "Reshape") {
    ir::Shape shape = builder_.type(value).shape;
    for (Dim& dim : shape) dim = dim.substitute({{*symbol, to}});
    attrs.set("shape", shape);
  }
  return builder_.add(op, {*input}, attrs);
}

ValueId DataSizes::with_size(ValueId value, const Dim& from, const Dim& to) {
  if (const auto all = with_all_places(value, from, to)) return *all;
  const ir::Shape shape = builder_.type(value).shape;
  // Repeats the last element beyond the end.
  const ValueId zero = builder_.constant(ir::Tensor::scalar(DType::kInt64, 0));
  const ValueId last = builder_.add("Max", {folder_.scalar_of(from - Dim(1)), zero});
  const ValueId places = builder_.add("Min", {folder_.iota(to, DType::kInt64), last});
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] == from)
      value = builder_.add("Gather", {value, places}, {{"axis", static_cast<std::int64_t>(d)}});
  return value;
}

bool DataSizes::give(std::vector<ValueId>& inputs, const Dim& from, const Dim& to) {
  if (!ir::is_from_data({&from, 1}, builder_.ranges())) return false;
  bool changed = false;
  for (ValueId& input : inputs) {
    if (!input.valid() || std::ranges::count(builder_.type(input).shape, from) == 0) continue;
    input = with_size(input, from, to);
    changed = true;
  }
  return changed;
}

bool DataSizes::fit(std::vector<ValueId>& inputs, const Dim& a, const Dim& b) {
  const bool a_is_longer = a.to_string().size() > b.to_string().size();
  const Dim &longer = a_is_longer ? a : b, &shorter = a_is_longer ? b : a;
  if (give(inputs, longer, shorter) || give(inputs, shorter, longer)) return true;
  // Element counts: they are equal if a size is the quotient of the others.
  for (const std::string& symbol : longer.symbols()) {
    const Dim size = Dim::symbol(symbol);
    const auto factor = ir::divide_exactly(longer, size);
    const auto quotient = factor ? ir::divide_exactly(shorter, *factor) : std::nullopt;
    if (quotient && give(inputs, size, *quotient)) return true;
  }
  return false;
}

std::vector<ValueId> DataSizes::sources(ValueId value) {
  std::vector<ValueId> open{value}, found;
  std::set<ValueId> seen;
  const auto is_small = [&](ValueId id) {
    const ir::TensorType& type = builder_.type(id);
    const Dim count = ir::element_count(type.shape);
    return is_integer(type.dtype) && count.is_constant() && count.value() <= 256;
  };
  while (!open.empty()) {
    const ValueId next = open.back();
    open.pop_back();
    if (!seen.insert(next).second || folder_.contents(next)) continue;
    const ir::Node* node = builder_.producer(next);
    const bool follows = node != nullptr && !node->body &&
                         std::ranges::all_of(node->inputs, is_small) &&
                         (node->op->name == "Cast" || node->op->kind == ir::OpKind::kView ||
                          node->op->take() != nullptr);
    if (!follows)
      found.push_back(next);
    else
      open.insert(open.end(), node->inputs.begin(), node->inputs.end());
  }
  std::ranges::sort(found);
  return found;
}

std::optional<std::int64_t> DataSizes::bound_of(const std::string& name) {
  const auto given = bounds_.find(name);
  if (given == bounds_.end()) return std::nullopt;
  used_.insert(name);
  return given->second;
}

std::vector<std::string> DataSizes::unused() const {
  std::vector<std::string> names;
  for (const auto& [name, bound] : bounds_)
    if (!used_.contains(name)) names.push_back(name);
  return names;
}

}  // namespace sinter::frontend
