// SPDX-License-Identifier: Apache-2.0
// Scatters whose updates may meet, as kernels that are parallel and have one order.
//
// A Scatter sends updates [n, width] to rows of data [rows, width] (other shapes are reshaped).
// Updates that are combined are grouped by row once, for all Scatters at the same indices, and then
// added row by row; those of small tables, which a block can hold, go there at once. Of updates
// that replace elements the last one stays: it is found first, and the rest is a choice.
//
// Rows of updates that are gathered, and maybe scaled, are read where they lie: the order of the
// groups and the gather are one vector of indices.
#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "fusion/passes/passes.h"
#include "ir/affine.h"
#include "ir/reference/evaluate.h"

namespace sinter::fusion {
namespace {

/// Elements of a table that a block of a GPU holds, in several copies, and its widest row: wider
/// ones are as well read group by group.
constexpr std::int64_t kMostTable = 4096, kWidestTable = 16;
/// On a CPU each thread has a part of the rows and reads all indices. That is best for narrow rows,
/// and for results that stay in cache.
constexpr std::int64_t kWidestScanned = 8, kMostScanned = 4 << 20;
constexpr std::int64_t kNarrowest = 16;  // bytes of a row below which a table of rows costs as much
constexpr double kMostOfBlock = 2048;    // indices that one block groups
constexpr std::int64_t kMostUpdates = INT32_MAX;  // that positions of 32 bits count

/// Trailing dimensions of data and updates that correspond are the width; the updates' others are
/// indexed.
struct Form {
  std::size_t indexed = 0;  // dimensions of the updates
  std::size_t rows = 0;     // dimensions of the data
  bool may_meet = false;
  std::vector<std::size_t> follows;  // the dimension of the updates that a place is, or none
  std::vector<bool> exact;           // that dimension has the size of the data's
};

bool is_one(const Dim& dim) { return dim == Dim(1); }

Dim product(const Shape& shape, std::size_t begin, std::size_t end) {
  Dim result = 1;
  for (std::size_t d = begin; d < end; ++d) result *= shape[d];
  return result;
}

bool has_elements_alike(const Tensor& tensor) {
  const std::size_t size = size_of(tensor.dtype());
  const auto bytes = tensor.bytes();
  return bytes.size() >= size &&
         (bytes.size() == size ||
          std::memcmp(bytes.data(), bytes.data() + size, bytes.size() - size) == 0);
}

class GroupUpdates {
 public:
  GroupUpdates(GraphBuilder& builder, const Graph& old, const Context& context)
      : b_(builder), old_(old), context_(context) {}

  std::optional<std::vector<ValueId>> scatter(const Node& node, std::span<const ValueId> inputs) {
    const TensorType &data = old_.type(node.inputs[0]), &updates = old_.type(node.inputs[1]);
    const auto combine = node.op->scatter()->combine(node.attrs);
    if (is_float8(data.dtype) || data.shape.empty()) return std::nullopt;
    std::vector<ValueId> indices(inputs.begin() + 2, inputs.end());
    for (ValueId& index : indices) index = without_copies(index);
    const auto form = form_of(node, indices);
    if (!form || !form->may_meet) return std::nullopt;
    if (!combine && (node.attrs.get_int("distinct") != 0 || is_state(node.inputs[0])))
      return std::nullopt;
    rows_ = product(data.shape, 0, form->rows);
    width_ = product(data.shape, form->rows, data.shape.size());
    count_ = product(updates.shape, 0, form->indexed);
    for (const Dim& size : {rows_, count_})
      if (ir::lower_bound(size, b_.ranges()).value_or(0) > kMostUpdates) return std::nullopt;
    // Known indices are grouped, and their last ones found, here and now.
    if (!context_.target.generates_kernels ||
        (b_.constant_of(indices[0]) == nullptr &&
         (!combine || (is_order_free(data.dtype, node) && !is_table(data.dtype))))) {
      if (const auto result = by_element(node, inputs, *form, indices))
        return std::vector{reshape(*result, data.shape)};
    }
    if (context_.target.generates_kernels && !combine &&
        ir::lower_bound(count_, b_.ranges()).value_or(1) == 0) {
      return std::nullopt;  // a choice among no updates
    }
    const ValueId index = index_of(*form, data.shape, updates.shape, indices);
    const ValueId result = combine ? combined(node, inputs, index) : replaced(inputs, index);
    return std::vector{reshape(result, data.shape)};
  }

  /// What is added to sums onto zeros is what they begin with.
  std::optional<std::vector<ValueId>> added(const Node& node, std::span<const ValueId> inputs) {
    const Shape& shape = old_.type(node.outputs[0]).shape;
    for (std::size_t i = 0; i < 2; ++i) {
      if (b_.type(inputs[i]).shape != shape || b_.type(inputs[1 - i]).shape != shape ||
          old_.users(node.inputs[i]).size() != 1 || old_.is_output(node.inputs[i]))
        continue;
      const Node* sums = b_.producer(inputs[i]);
      if (sums != nullptr && sums->op->name == "Reshape") sums = b_.producer(sums->inputs[0]);
      if (sums == nullptr || !sums->op->kernel.starts_with("combine_") ||
          sums->attrs.get_string("combine") != "sum")
        continue;
      const Tensor* onto = b_.constant_of(sums->inputs[0]);
      if (onto == nullptr || onto->element_count() != 1 || !is_zero(*onto)) continue;
      const std::string name = sums->op->name;
      const Attrs attrs = sums->attrs;
      std::vector<ValueId> operands = sums->inputs;
      const Shape whole = b_.type(sums->outputs[0]).shape;
      operands[0] = reshape(inputs[1 - i], whole);
      return std::vector{reshape(b_.add(name, operands, attrs), shape)};
    }
    return std::nullopt;
  }

  /// Sums and means of gathered rows that lie side by side (embedding bags): groups of one size.
  /// Kernels that reduce read them as well where they are generated.
  std::optional<std::vector<ValueId>> reduced(const Node& node, std::span<const ValueId> inputs) {
    const Node* gather = b_.producer(inputs[0]);
    if (gather == nullptr || gather->op->name != "Gather" || gather->attrs.get_int("axis") != 0)
      return std::nullopt;
    const ValueId table = gather->inputs[0], index = gather->inputs[1];
    const TensorType from = b_.type(table), at = b_.type(index);
    const Ints& axes = node.attrs.get_ints("axes");
    // A mean of 16 bits would be rounded twice, and its sum might overflow.
    if (node.op->name == "ReduceMean" && compute_type(from.dtype) != from.dtype)
      return std::nullopt;
    if (!is_float(from.dtype) || is_float8(from.dtype) || from.shape.size() < 2 || axes.empty() ||
        axes[0] < 1 || axes.back() + 1 != std::ssize(at.shape) ||
        axes.back() - axes[0] + 1 != std::ssize(axes))
      return std::nullopt;
    const auto first = static_cast<std::size_t>(axes[0]);
    const Dim each = product(at.shape, first, at.shape.size());
    rows_ = product(at.shape, 0, first);
    width_ = product(from.shape, 1, from.shape.size());
    count_ = rows_ * each;
    if (!each.is_constant() || each.value() < 1 ||
        ir::lower_bound(count_, b_.ranges()).value_or(0) > kMostUpdates)
      return std::nullopt;
    const ValueId numbers = b_.add("Iota", {},
                                   {{"shape", Shape{rows_ + Dim(1)}},
                                    {"axis", std::int64_t{0}},
                                    {"dtype", ir::Attr(DType::kInt32)}});
    const ValueId starts =
        b_.add("Mul", {numbers, b_.scalar(DType::kInt32, static_cast<double>(each.value()))});
    const ValueId zero =
        b_.constant(Tensor::from_doubles(from.dtype, {1, 1}, std::vector<double>{0}));
    const ValueId order = at.dtype == DType::kInt32 ? index : cast(index, DType::kInt64);
    ValueId result =
        b_.add("CombineGroups",
               {zero, reshape(table, {from.shape[0], width_}), reshape(order, {count_}), starts},
               {{"combine", std::string("sum")}});
    if (node.op->name == "ReduceMean")
      result =
          b_.add("Mul", {result, b_.scalar(from.dtype, 1.0 / static_cast<double>(each.value()))});
    return std::vector{reshape(result, old_.type(node.outputs[0]).shape)};
  }

 private:
  static bool is_zero(const Tensor& tensor) {
    return is_float(tensor.dtype()) ? tensor.at(0) == 0 : tensor.at_int(0) == 0;
  }

  /// A node of one output.
  ValueId add(std::string_view op, const std::vector<ValueId>& inputs, const Attrs& attrs = {}) {
    return known(op, inputs, attrs)[0];
  }
  ValueId reshape(ValueId value, const Shape& shape) {
    return b_.type(value).shape == shape ? value : add("Reshape", {value}, {{"shape", shape}});
  }
  ValueId expand(ValueId value, const Shape& shape) {
    return b_.type(value).shape == shape ? value : add("Expand", {value}, {{"shape", shape}});
  }
  ValueId cast(ValueId value, DType type) {
    return b_.type(value).dtype == type ? value : add("Cast", {value}, {{"to", type}});
  }

  /// A node, or its values if all inputs are constants.
  std::vector<ValueId> known(std::string_view op, const std::vector<ValueId>& inputs,
                             const Attrs& attrs = {}) {
    std::vector<Tensor> constants;
    for (const ValueId input : inputs)
      if (const Tensor* constant = b_.constant_of(input)) constants.push_back(*constant);
    bool is_known = !inputs.empty() && constants.size() == inputs.size();
    for (const auto& [name, attr] : attrs.values())
      if (const auto* dims = std::get_if<std::vector<Dim>>(&attr))
        for (const Dim& dim : *dims) is_known = is_known && dim.is_constant();
    if (!is_known) return b_.add_multi(op, inputs, attrs);
    std::vector<ValueId> results;
    for (Tensor& result : ir::evaluate_op(ir::get_op(op), attrs, constants))
      results.push_back(b_.constant(std::move(result)));
    return results;
  }

  /// Index tensors broadcast: a tensor that is one, written out, is the smaller one.
  ValueId without_copies(ValueId index) {
    for (const Node* node = b_.producer(index); node != nullptr && node->op->name == "Expand";
         node = b_.producer(index))
      index = node->inputs[0];
    const auto constant = b_.shared_constant(index);
    if (!constant || constant->element_count() < 2) return index;
    // Rows of equal elements, as exporters that fold constants write them.
    Ints shape = constant->shape();
    const std::size_t size = size_of(constant->dtype());
    std::int64_t run = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
      const std::int64_t longer = run * shape[d];
      bool alike = true;
      for (std::int64_t first = 0; alike && first < constant->element_count(); first += longer) {
        const std::byte* at = constant->bytes().data() + static_cast<std::size_t>(first) * size;
        alike = longer < 2 ||
                std::memcmp(at, at + size, static_cast<std::size_t>(longer - 1) * size) == 0;
      }
      if (!alike) break;
      run = longer;
      shape[d] = 1;
    }
    if (shape == constant->shape()) return index;
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < constant->element_count(); i += run)
      values.push_back(constant->at_int(i));
    return b_.constant(Tensor::from_ints(constant->dtype(), shape, values));
  }

  std::optional<Form> form_of(const Node& node, const std::vector<ValueId>& indices) const {
    const Shape &data = old_.type(node.inputs[0]).shape, &updates = old_.type(node.inputs[1]).shape;
    Ranges ranges = old_.ranges();
    const std::vector<Dim> index = ir::index_symbols(updates, ranges);
    std::vector<std::optional<Dim>> known;
    for (const ir::DataIndex& at :
         node.op->scatter()->map(node.attrs, old_.types(node.inputs), index)) {
      if (at.input < 0) return std::nullopt;
      known.push_back(
          ir::index_of_value(old_, node.inputs[static_cast<std::size_t>(at.input)], at.at, ranges));
    }
    /// Whether the place along dimension d of the data depends on dimension u of the updates.
    const auto depends = [&](std::size_t d, std::size_t u) {
      if (known[d]) {
        const auto symbols = known[d]->symbols();
        return std::ranges::find(symbols, ir::index_symbol(static_cast<int>(u))) != symbols.end();
      }
      const Shape& shape = b_.type(indices[d]).shape;
      const std::size_t from_end = updates.size() - u;
      return shape.size() >= from_end && !is_one(shape[shape.size() - from_end]);
    };
    Form form{updates.size(), data.size(), false, {}, {}};
    while (form.indexed > 0 && form.rows > 0) {
      const std::size_t u = form.indexed - 1, d = form.rows - 1;
      if (known[d] != index[u] || data[d] != updates[u]) break;
      bool alone = true;
      for (std::size_t other = 0; other < d; ++other) alone = alone && !depends(other, u);
      if (!alone) break;
      --form.indexed, --form.rows;
    }
    if (form.rows == 0) return std::nullopt;
    for (std::size_t u = 0; u < form.indexed; ++u) {
      const bool counted =
          std::ranges::any_of(known, [&](const auto& at) { return at == index[u]; });
      form.may_meet = form.may_meet || (!counted && !is_one(updates[u]));
    }
    for (std::size_t d = 0; d < form.rows; ++d) {
      std::size_t follows = updates.size();
      for (std::size_t u = 0; u < form.indexed; ++u)
        if (known[d] == index[u]) follows = u;
      form.follows.push_back(follows);
      form.exact.push_back(follows < updates.size() && updates[follows] == data[d]);
    }
    return form;
  }

  /// One index of a row for each update, as a vector; out of range if one of several is.
  ValueId index_of(const Form& form, const Shape& data, const Shape& updates,
                   const std::vector<ValueId>& indices) {
    const Shape all(updates.begin(), updates.begin() + static_cast<std::ptrdiff_t>(form.indexed));
    const std::size_t width_dims = updates.size() - form.indexed;
    std::vector<ValueId> places;
    for (std::size_t d = 0; d < form.rows; ++d) {
      Shape shape = b_.type(indices[d]).shape;
      shape.resize(shape.size() - std::min(shape.size(), width_dims));
      places.push_back(reshape(indices[d], shape));
    }
    ValueId result = places[0];
    if (form.rows > 1) {
      std::optional<ValueId> inside;
      for (std::size_t d = 0; d < form.rows; ++d) {
        ValueId place = cast(places[d], DType::kInt64);
        const ValueId extent = size(data[d]);
        if (!form.exact[d]) {
          const ValueId zero = b_.scalar(DType::kInt64, 0);
          place = add("Where", {add("Less", {place, zero}), add("Add", {place, extent}), place});
          const ValueId holds =
              add("And", {add("GreaterOrEqual", {place, zero}), add("Less", {place, extent})});
          inside = inside ? add("And", {*inside, holds}) : holds;
        }
        result = d == 0 ? place : add("Add", {add("Mul", {result, extent}), place});
      }
      if (inside) result = add("Where", {*inside, result, size(rows_)});
    }
    const DType type = b_.type(result).dtype;
    if (type != DType::kInt32) result = cast(result, DType::kInt64);
    return reshape(expand(result, all), {count_});
  }

  ValueId size(const Dim& dim) {
    return dim.is_constant() ? b_.scalar(DType::kInt64, static_cast<double>(dim.value()))
                             : b_.add("Size", {}, {{"value", std::vector<Dim>{dim}}});
  }

  /// Views of a state, which Scatters may have changed before.
  bool is_state(ValueId value) const {
    for (const Node* node = old_.producer(value); node != nullptr; node = old_.producer(value)) {
      if (node->op->kind != OpKind::kView && node->op->scatter() == nullptr) return false;
      value = node->inputs[0];
    }
    const auto input = old_.input_number(value);
    return input && std::ranges::any_of(old_.states(), [&](const ir::State& state) {
             return state.input == static_cast<int>(*input);
           });
  }

  // ---- updates that are combined

  /// The data as rows, or the one element that it is everywhere.
  ValueId onto(ValueId data) {
    ValueId value = data;
    const Node* node = b_.producer(value);
    while (node != nullptr && (node->op->name == "Expand" || node->op->name == "Reshape") &&
           b_.constant_of(value) == nullptr) {
      value = node->inputs[0];
      node = b_.producer(value);
    }
    if (const Tensor* constant = b_.constant_of(value);
        constant != nullptr && has_elements_alike(*constant)) {
      const DType type = constant->dtype();
      return b_.constant(is_float(type)
                             ? Tensor::from_doubles(type, {1, 1}, std::vector{constant->at(0)})
                             : Tensor::from_ints(type, {1, 1}, std::vector{constant->at_int(0)}));
    }
    return reshape(data, {rows_, width_});
  }

  bool is_table(DType type) const {
    if (!width_.is_constant()) return false;
    if (!context_.target.generates_kernels) {
      const auto size = static_cast<std::int64_t>(size_of(type));
      return width_.value() <= kWidestScanned ||
             (compute_type(type) == type && rows_.is_constant() &&
              rows_.value() <= kMostScanned / (width_.value() * size));
    }
    return rows_.is_constant() && width_.value() <= kWidestTable &&
           rows_.value() * width_.value() <= kMostTable;
  }

  /// Kernels combine in cells in which any order gives the same bits: maxima, minima, integers, and
  /// floats as integers of 64 bits.
  bool is_order_free(DType type, const Node& node) const {
    const std::string& combine = node.attrs.get_string("combine");
    return context_.target.generates_kernels &&
           (combine == "max" || combine == "min" || (combine == "sum" && type != DType::kFloat64));
  }

  /// Whether updates that come in any order are done before they are grouped and read row by row.
  /// Bytes of traffic that take as long; `sharing`: Scatters that group the same indices.
  bool prefers_cells(DType type, const Node& node, std::size_t sharing) const {
    const auto most = [&](const Dim& size) {
      return static_cast<double>(ir::upper_bound(size, b_.ranges()).value_or(kMostUpdates));
    };
    constexpr double kLaunch = 4;  // of dependent kernels, in launches that overlap
    constexpr double kAtomic = 30, kWideAtomic = 40, kTop = 8, kCell = 24, kDigit = 24;
    constexpr double kMeeting = 6000;  // of updates of one element, one after the other
    const double launch = kLaunch * context_.target.launch_bytes;
    const double count = most(count_), rows = most(rows_), all = count * most(width_);
    const auto size = static_cast<double>(size_of(type));
    const bool sums_floats = is_float(type) && node.attrs.get_string("combine") == "sum";
    const bool has_tops = sums_floats && type != DType::kFloat16;
    const double cells =
        (has_tops ? 4 : 3) * launch + rows * most(width_) * kCell +
        all * (size + (sums_floats ? kWideAtomic : kAtomic) + (has_tops ? size + kTop : 0)) +
        count / std::max(1.0, rows) * kMeeting;
    double passes = 1;
    for (double digits = 256; digits <= rows; digits *= 256) ++passes;
    const double grouping =
        count <= kMostOfBlock ? launch : (3 * passes + 1) * launch + count * passes * kDigit;
    const double groups =
        grouping / static_cast<double>(std::max<std::size_t>(1, sharing)) + 2 * launch + all * size;
    return cells < groups;
  }

  ValueId combined(const Node& node, std::span<const ValueId> inputs, ValueId index) {
    const ir::Attr combine = node.attrs.get_string("combine");
    const ValueId data = onto(inputs[0]);
    const std::vector<Dim> extent{rows_};
    const Source source = context_.fuse ? source_of(inputs[1]) : Source{};
    if (is_table(b_.type(inputs[0]).dtype) && !source.index) {
      const ValueId updates = reshape(inputs[1], {count_, width_});
      return b_.add("CombineTable", {data, updates, index},
                    {{"combine", combine}, {"extent", extent}});
    }
    if (!source.index && is_order_free(b_.type(inputs[0]).dtype, node) &&
        b_.constant_of(index) == nullptr &&
        prefers_cells(b_.type(inputs[0]).dtype, node, old_.users(node.inputs[2]).size()))
      return b_.add("CombineTable", {data, reshape(inputs[1], {count_, width_}), index},
                    {{"combine", combine}, {"extent", extent}});
    const auto groups = known("GroupByIndex", {index}, {{"extent", extent}});
    std::vector<ValueId> operands = {data, reshape(inputs[1], {count_, width_}), groups[0],
                                     groups[1]};
    const auto in_order = [&](ValueId value) {
      return known("Gather", {reshape(value, {count_}), groups[0]}, {{"axis", std::int64_t{0}}})[0];
    };
    if (source.index) {
      operands[1] = source.rows;
      operands[2] = in_order(*source.index);
      if (source.factor) operands.push_back(in_order(*source.factor));
    }
    return b_.add("CombineGroups", operands, {{"combine", combine}});
  }

  /// Where only the place along the first dimension follows from an index, one for each element.
  std::optional<ValueId> by_element(const Node& node, std::span<const ValueId> inputs,
                                    const Form& form, const std::vector<ValueId>& indices) {
    const Shape &data = old_.type(node.inputs[0]).shape, &updates = old_.type(node.inputs[1]).shape;
    if (form.indexed < 2 || form.rows < 2 || form.exact[0] || data.size() != updates.size() ||
        b_.type(indices[0]).shape != updates)
      return std::nullopt;
    for (std::size_t d = 1; d < form.rows; ++d)
      if (form.follows[d] != d || data[d] != updates[d]) return std::nullopt;
    rows_ = data[0];
    width_ = product(data, 1, data.size());
    count_ = updates[0];
    const Shape all{count_, width_};
    const DType type = b_.type(indices[0]).dtype;
    const ValueId index = type == DType::kInt32 ? indices[0] : cast(indices[0], DType::kInt64);
    return b_.add(
        "CombineTable", {onto(inputs[0]), reshape(inputs[1], all), reshape(index, all)},
        {{"combine", node.attrs.get_string("combine")}, {"extent", std::vector<Dim>{rows_}}});
  }

  /// Updates that are rows[index] * factor; there is an index if they are.
  struct Source {
    ValueId rows;
    std::optional<ValueId> index, factor;
  };

  ValueId before_reshapes(ValueId value) const {
    for (const Node* node = b_.producer(value); node != nullptr && node->op->name == "Reshape";
         node = b_.producer(value))
      value = node->inputs[0];
    return value;
  }

  Source source_of(ValueId updates) {
    const Node* node = b_.producer(before_reshapes(updates));
    if (node == nullptr) return {};
    if (node->op->name == "Mul") {
      const std::vector<ValueId> operands = node->inputs;
      const TensorType product = b_.type(node->outputs[0]);
      for (std::size_t i = 0; i < 2; ++i) {
        const auto factor = factor_of(operands[1 - i], product.shape);
        if (!factor || b_.type(operands[i]).shape != product.shape) continue;
        Source source = gathered(operands[i]);
        if (source.index) source.factor = *factor;
        if (source.index) return source;
      }
      return {};
    }
    return gathered(updates);
  }

  /// A value that is the same for all elements of an update, as a vector; `shape`: of the updates.
  std::optional<ValueId> factor_of(ValueId value, const Shape& shape) {
    Shape own = b_.type(value).shape;
    if (own.size() > shape.size()) return std::nullopt;
    own.insert(own.begin(), shape.size() - own.size(), Dim(1));
    Dim count = 1;
    std::size_t d = 0;
    // Leading dimensions that it has as the updates do, up to all of these; then ones.
    for (; d < shape.size() && !(count == count_); ++d) {
      if (own[d] != shape[d]) return std::nullopt;
      count *= shape[d];
    }
    if (!(count == count_)) return std::nullopt;
    for (; d < shape.size(); ++d)
      if (!is_one(own[d])) return std::nullopt;
    return reshape(value, {count_});
  }

  Source gathered(ValueId updates) {
    const Node* node = b_.producer(before_reshapes(updates));
    if (node == nullptr || node->op->name != "Gather" || node->attrs.get_int("axis") != 0)
      return {};
    const ValueId rows = node->inputs[0], index = node->inputs[1];
    const Shape from = b_.type(rows).shape;
    const TensorType at = b_.type(index);
    if (from.empty() || ir::element_count(at.shape) != count_ ||
        product(from, 1, from.size()) != width_ ||
        (at.dtype != DType::kInt32 && at.dtype != DType::kInt64))
      return {};
    return {reshape(rows, {from[0], width_}), index, {}};
  }

  // ---- updates that replace

  ValueId replaced(std::span<const ValueId> inputs, ValueId index) {
    const bool is_narrow =
        width_.is_constant() &&
        width_.value() * static_cast<std::int64_t>(size_of(b_.type(inputs[0]).dtype)) <= kNarrowest;
    if (!context_.target.generates_kernels || (is_narrow && b_.constant_of(index) == nullptr))
      return b_.add("CombineTable", {onto(inputs[0]), reshape(inputs[1], {count_, width_}), index},
                    {{"combine", std::string("none")}, {"extent", std::vector<Dim>{rows_}}});
    const ValueId last = known("LastByIndex", {index}, {{"extent", std::vector<Dim>{rows_}}})[0];
    const ValueId zero = b_.scalar(DType::kInt32, 0);
    const ValueId is_new = b_.add("GreaterOrEqual", {last, zero});
    const ValueId updates = reshape(inputs[1], {count_, width_});
    const ValueId rows =
        b_.add("Gather", {updates, b_.add("Max", {last, zero})}, {{"axis", std::int64_t{0}}});
    return b_.add("Where",
                  {reshape(is_new, {rows_, Dim(1)}), rows, reshape(inputs[0], {rows_, width_})});
  }

  GraphBuilder& b_;
  const Graph& old_;
  const Context& context_;
  Dim rows_, width_, count_;  // of the Scatter at hand
};

}  // namespace

Graph group_updates(const Graph& graph, Context& context) {
  return ir::rewrite(graph,
                     [&](GraphBuilder& builder, const Graph& old, const Node& node,
                         std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
                       GroupUpdates group(builder, old, context);
                       if (node.op->scatter() != nullptr) return group.scatter(node, inputs);
                       if (context.fuse && node.op->name == "Add") return group.added(node, inputs);
                       if (context.fuse && !context.target.generates_kernels &&
                           (node.op->name == "ReduceSum" || node.op->name == "ReduceMean"))
                         return group.reduced(node, inputs);
                       return std::nullopt;
                     });
}

}  // namespace sinter::fusion
