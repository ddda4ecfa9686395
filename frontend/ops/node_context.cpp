// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/node_context.h"

#include <algorithm>
#include <type_traits>

#include <onnx.pb.h>

#include "frontend/model/initializers.h"
#include "runtime/format_error.h"

namespace sinter::frontend {

NodeContext::NodeContext(const onnx::NodeProto& node, Environment environment,
                         std::vector<ValueId> inputs, std::vector<bool> output_is_used)
    : node_(node),
      env_(std::move(environment)),
      inputs_(std::move(inputs)),
      output_is_used_(std::move(output_is_used)),
      outputs_(output_is_used_.size()) {}

const std::string& NodeContext::op_type() const { return node_.op_type(); }

void NodeContext::invalid(const std::string& why) const { throw invalid_model_error(why); }

void NodeContext::unsupported(const std::string& why) const { throw unsupported_error(why); }

ValueId NodeContext::input(std::size_t i, std::string_view what) const {
  if (!has_input(i)) invalid("input {} ({}) is missing", i, what);
  return inputs_[i];
}

std::vector<ValueId> NodeContext::all_inputs() const {
  if (inputs_.empty()) invalid("it has no inputs");
  for (std::size_t i = 0; i < inputs_.size(); ++i) input(i, "input");
  return inputs_;
}

std::vector<Dim> NodeContext::sizes(std::size_t i, std::string_view what) const {
  const ValueId value = input(i, what);
  if (!is_integer(dtype(value)) || rank(value) > 1)
    invalid("input {} ({}) must be a vector of integers, but is {}", i, what, type(value));
  if (auto dims = env_.folder.needed_contents(value)) return *dims;
  std::vector<std::string> names;
  for (const ValueId source : env_.data_sizes->sources(value))
    if (const std::string& name = env_.builder.name(source); !name.empty())
      names.push_back(fmt::format("--bound '{}=N'", name));
  unsupported(
      "the value of its {} (input {}, '{}') depends on the data of the model's inputs; "
      "it must follow from constants and input shapes{}{}",
      what, i, node_.input(static_cast<int>(i)),
      names.empty() ? "" : ", or from sizes of which you give the most that they may be: ",
      fmt::join(names, " "));
}

Dim NodeContext::size_up_to(std::size_t i, const Dim& most, std::string_view what) {
  const ValueId value = input(i, what);
  if (!is_integer(dtype(value)) || ir::element_count(shape(value)) != Dim(1))
    invalid("input {} ({}) must be one integer, but is {}", i, what, type(value));
  return size_from_data(value, most, fmt::format("/{}", what));
}

Dim NodeContext::size_from_data(ValueId count, const std::optional<Dim>& most,
                                const std::string& suffix) {
  return env_.data_sizes->size(count, size_name(suffix), most);
}

std::optional<std::int64_t> NodeContext::given_bound(const std::string& suffix) const {
  return env_.data_sizes->bound_of(size_name(suffix));
}

void NodeContext::require_zero(ValueId value, const std::string& suffix) {
  env_.data_sizes->require_zero(value, env_.label + suffix);
}

Dim NodeContext::size(std::size_t i, std::string_view what) const {
  const auto dims = sizes(i, what);
  if (dims.size() != 1)
    invalid("input {} ({}) must have one element, but has {}", i, what, dims.size());
  return dims[0];
}

Ints NodeContext::ints(std::size_t i, std::string_view what) const {
  Ints values;
  for (const Dim& dim : sizes(i, what)) {
    if (!dim.is_constant())
      unsupported("the value of its {} (input {}, '{}') has {} in it; only constants are supported",
                  what, i, node_.input(static_cast<int>(i)), dim);
    values.push_back(dim.value());
  }
  return values;
}

double NodeContext::scalar(std::size_t i, std::string_view what) const {
  const ValueId value = input(i, what);
  const auto tensor = env_.folder.constant(value);
  if (!tensor) {
    env_.folder.need(value);
    unsupported("the value of its {} (input {}, '{}') is not a constant", what, i,
                node_.input(static_cast<int>(i)));
  }
  if (tensor->element_count() != 1)
    invalid("input {} ({}) must have one element, but is {}", i, what, type(value));
  return tensor->at(0);
}

const onnx::AttributeProto* NodeContext::find_attr(std::string_view name, int type) const {
  const onnx::AttributeProto* found = nullptr;
  for (const auto& attribute : node_.attribute())
    if (attribute.name() == name) found = &attribute;
  if (found == nullptr) return nullptr;
  if (!found->ref_attr_name().empty())
    invalid("attribute '{}' refers to an attribute of a function, but the node is not in one",
            name);
  // Type names of the ONNX specification, by number.
  static constexpr const char* kNames[] = {"UNDEFINED", "FLOAT",   "INT",    "STRING",
                                           "TENSOR",    "GRAPH",   "FLOATS", "INTS",
                                           "STRINGS",   "TENSORS", "GRAPHS", "SPARSE_TENSOR"};
  const int stored = static_cast<int>(found->type());
  if (stored != type)
    invalid("attribute '{}' must have type {}, but has type {}", name, kNames[type],
            stored >= 0 && stored < static_cast<int>(std::size(kNames))
                ? kNames[stored]
                : fmt::format("number {}", stored));
  return found;
}

template <typename Value>
Value NodeContext::default_of(std::string_view name, std::optional<Value> fallback) const {
  if (!fallback) invalid("attribute '{}' is missing", name);
  if (const auto ignored = env_.ignored_attributes.find(name);
      ignored != env_.ignored_attributes.end()) {
    // ONNX's are float32: as doubles they have digits that nobody wrote.
    using Shown = std::conditional_t<std::is_same_v<Value, double>, float, Value>;
    assume("attribute '{}' is not known, and is ignored: '{}' is {}, its default", ignored->second,
           name, static_cast<Shown>(*fallback));
  }
  return *std::move(fallback);
}

bool NodeContext::has_attr(std::string_view name) const {
  return std::ranges::any_of(node_.attribute(),
                             [&](const auto& attribute) { return attribute.name() == name; });
}

std::int64_t NodeContext::attr_int(std::string_view name,
                                   std::optional<std::int64_t> fallback) const {
  const std::int64_t value = attr_value(name, fallback);
  if (value < std::numeric_limits<std::int32_t>::min() ||
      value > std::numeric_limits<std::int32_t>::max())
    invalid("attribute '{}' is {}, which no size, axis or flag can be", name, value);
  return value;
}

std::int64_t NodeContext::attr_value(std::string_view name,
                                     std::optional<std::int64_t> fallback) const {
  if (const auto* attribute = find_attr(name, onnx::AttributeProto::INT)) return attribute->i();
  return default_of(name, fallback);
}

double NodeContext::attr_float(std::string_view name, std::optional<double> fallback) const {
  if (const auto* attribute = find_attr(name, onnx::AttributeProto::FLOAT)) return attribute->f();
  return default_of(name, fallback);
}

std::string NodeContext::attr_string(std::string_view name,
                                     std::optional<std::string> fallback) const {
  if (const auto* attribute = find_attr(name, onnx::AttributeProto::STRING)) return attribute->s();
  return default_of(name, std::move(fallback));
}

std::optional<Ints> NodeContext::attr_ints(std::string_view name) const {
  const auto* attribute = find_attr(name, onnx::AttributeProto::INTS);
  if (attribute == nullptr) return std::nullopt;
  return Ints(attribute->ints().begin(), attribute->ints().end());
}

std::optional<std::vector<double>> NodeContext::attr_floats(std::string_view name) const {
  const auto* attribute = find_attr(name, onnx::AttributeProto::FLOATS);
  if (attribute == nullptr) return std::nullopt;
  return std::vector<double>(attribute->floats().begin(), attribute->floats().end());
}

std::optional<std::vector<std::string>> NodeContext::attr_strings(std::string_view name) const {
  const auto* attribute = find_attr(name, onnx::AttributeProto::STRINGS);
  if (attribute == nullptr) return std::nullopt;
  return std::vector<std::string>(attribute->strings().begin(), attribute->strings().end());
}

std::optional<ir::Tensor> NodeContext::attr_tensor(std::string_view name) const {
  const auto* attribute = find_attr(name, onnx::AttributeProto::TENSOR);
  if (attribute == nullptr) return std::nullopt;
  return read_tensor(attribute->t(), env_.owner, env_.external);
}

std::optional<ir::Tensor> NodeContext::attr_four_bit_tensor(std::string_view name) const {
  const auto* attribute = find_attr(name, onnx::AttributeProto::TENSOR);
  if (attribute == nullptr || !frontend::is_four_bit(attribute->t().data_type()))
    return std::nullopt;
  return read_four_bit_tensor(attribute->t(), env_.external);
}

std::optional<ir::Tensor> NodeContext::attr_text_tensor(std::string_view name) const {
  const auto* attribute = find_attr(name, onnx::AttributeProto::TENSOR);
  if (attribute == nullptr || attribute->t().data_type() != kString) return std::nullopt;
  return env_.model_texts->codes_of(attribute->t());
}

std::optional<ir::Tensor> NodeContext::attr_sparse_tensor(std::string_view name) const {
  const auto* attribute = find_attr(name, onnx::AttributeProto::SPARSE_TENSOR);
  if (attribute == nullptr) return std::nullopt;
  return read_sparse_tensor(attribute->sparse_tensor(), env_.external);
}

const onnx::GraphProto& NodeContext::attr_graph(std::string_view name) const {
  const auto* attribute = find_attr(name, onnx::AttributeProto::GRAPH);
  if (attribute == nullptr) invalid("attribute '{}' is missing", name);
  return attribute->g();
}

const onnx::GraphProto& NodeContext::attr_graph(std::string_view name, std::size_t inputs) const {
  const onnx::GraphProto& graph = attr_graph(name);
  if (static_cast<std::size_t>(graph.input_size()) != inputs)
    invalid("its graph '{}' has {} inputs; it must have {}", name, graph.input_size(), inputs);
  return graph;
}

std::size_t NodeContext::subgraph_input_count(std::string_view name) const {
  return static_cast<std::size_t>(attr_graph(name).input_size());
}

std::size_t NodeContext::subgraph_output_count(std::string_view name) const {
  return static_cast<std::size_t>(attr_graph(name).output_size());
}

std::optional<std::vector<ValueId>> NodeContext::subgraph(std::string_view name,
                                                          std::span<const ValueId> inputs,
                                                          const std::string& suffix) {
  const onnx::GraphProto& graph = attr_graph(name, inputs.size());
  SubgraphImporter::Texts texts{env_.texts, {}};
  auto outputs = env_.subgraphs.import_subgraph(graph, inputs, env_.label + suffix, false, texts);
  if (outputs) body_texts_.push_back(std::move(texts.outputs));
  refused_ = refused_ || !outputs;
  return outputs;
}

std::optional<std::vector<ir::ValueId>> NodeContext::try_subgraph(
    std::string_view name, std::span<const ir::ValueId> inputs) {
  SubgraphImporter::Texts texts{env_.texts, {}};
  auto outputs = env_.subgraphs.import_subgraph(attr_graph(name, inputs.size()), inputs, env_.label,
                                                true, texts);
  if (outputs) body_texts_.push_back(std::move(texts.outputs));
  return outputs;
}

void NodeContext::keep_body_texts(std::size_t first, bool carries) {
  for (std::size_t i = 0; i < output_count(); ++i) {
    TextPtr one;
    for (const auto& body : body_texts_) {
      const TextPtr own = first + i < body.size() ? body[first + i] : nullptr;
      if (&body != &body_texts_.front() && !same_text(one, own))
        unsupported("its bodies make strings of different lists, or numbers, for output {}", i);
      one = own;
    }
    if (carries && 2 + i < input_count() && !same_text(one, text(2 + i)))
      unsupported("it carries strings of different lists, or numbers, in value {}", i);
    if (one) give_text(i, one);
  }
}

namespace {

/// Number of reads of `value` in `graph` and its subgraphs; outputs count.
int reads_of(const onnx::GraphProto& graph, const std::string& value) {
  int count = 0;
  for (const auto& output : graph.output()) count += output.name() == value ? 1 : 0;
  for (const auto& node : graph.node()) {
    count += static_cast<int>(std::ranges::count(node.input(), value));
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) count += reads_of(attribute.g(), value);
      for (const auto& inner : attribute.graphs()) count += reads_of(inner, value);
    }
  }
  return count;
}

}  // namespace

std::optional<NodeContext::Growth> NodeContext::growth_in_subgraph(std::string_view name,
                                                                   std::size_t input,
                                                                   std::size_t output) const {
  const onnx::GraphProto& graph = attr_graph(name);
  const std::string& before = graph.input(static_cast<int>(input)).name();
  const std::string& after = graph.output(static_cast<int>(output)).name();
  const auto made = std::ranges::find_if(graph.node(), [&](const onnx::NodeProto& node) {
    return node.op_type() == "Concat" && node.output_size() == 1 && node.output(0) == after;
  });
  if (made == graph.node().end() || made->attribute_size() != 1 || made->input_size() < 2)
    return std::nullopt;
  const bool behind = made->input(0) == before;
  if ((!behind && made->input(made->input_size() - 1) != before) || reads_of(graph, before) != 1 ||
      reads_of(graph, after) != 1)
    return std::nullopt;
  return Growth{made->attribute(0).i(), behind};
}

std::int64_t NodeContext::normalise_axis(std::int64_t axis, std::int64_t rank) const {
  if (axis < -rank || axis >= rank)
    invalid("axis {} is out of range for {} dimensions: it must be in [{}, {}]", axis, rank, -rank,
            rank - 1);
  return axis < 0 ? axis + rank : axis;
}

Ints NodeContext::normalise_axes(Ints axes, std::int64_t rank) const {
  for (std::int64_t& axis : axes) axis = normalise_axis(axis, rank);
  std::ranges::sort(axes);
  if (const auto twice = std::adjacent_find(axes.begin(), axes.end()); twice != axes.end())
    invalid("axis {} is given twice", *twice);
  return axes;
}

void NodeContext::warn(const std::string& what) {
  env_.warnings.push_back(fmt::format("{}: {}", env_.label, what));
}

void NodeContext::assume(const std::string& what) const {
  if (env_.strict) invalid(what + " (--strict makes that an error)");
  std::string text = fmt::format("{}: {}", env_.label, what);
  // Some read an attribute several times.
  if (std::ranges::find(env_.warnings, text) == env_.warnings.end())
    env_.warnings.push_back(std::move(text));
}

void NodeContext::check_indices(ValueId indices, const Dim& extent, std::size_t part,
                                std::size_t parts) const {
  const ir::Tensor* known = env_.builder.constant_of(indices);
  const auto most = ir::upper_bound(extent, env_.builder.ranges());
  if (known == nullptr || !most) return;
  const Ints all = known->to_ints();
  for (std::size_t i = part; i < all.size(); i += parts)
    if (all[i] < -*most || all[i] >= *most)
      invalid("index {} is out of range: the dimension has {} elements{}", all[i], extent,
              extent.is_constant() ? "" : fmt::format(", at most {}", *most));
}

ValueId NodeContext::reshape(ValueId value, const Shape& shape) {
  if (this->shape(value) == shape) return value;
  return add("Reshape", {value}, {{"shape", shape}});
}

ValueId NodeContext::expand(ValueId value, const Shape& shape) {
  if (this->shape(value) == shape) return value;
  return add("Expand", {value}, {{"shape", shape}});
}

ValueId NodeContext::transpose(ValueId value, Ints perm) {
  if (std::ranges::is_sorted(perm)) return value;
  return add("Transpose", {value}, {{"perm", std::move(perm)}});
}

ValueId NodeContext::concat(std::vector<ValueId> values, std::int64_t axis) {
  // Concatenates in a tree: reading or writing one concatenation costs time proportional to its
  // number of parts.
  if (values.empty()) invalid("there is nothing to concatenate");
  constexpr std::size_t kMost = 1024;
  while (values.size() > 1) {
    std::vector<ValueId> joined;
    for (std::size_t first = 0; first < values.size(); first += kMost) {
      const std::size_t last = std::min(first + kMost, values.size());
      const std::vector<ValueId> some(values.begin() + static_cast<std::ptrdiff_t>(first),
                                      values.begin() + static_cast<std::ptrdiff_t>(last));
      joined.push_back(some.size() == 1 ? some[0] : add("Concat", some, {{"axis", axis}}));
    }
    values = std::move(joined);
  }
  return values.front();
}

void NodeContext::take_memory(std::int64_t bytes, const std::string& what) {
  if (env_.memory_left == nullptr) return;
  if (bytes > *env_.memory_left)
    throw Error(
        ErrorCode::kOutOfMemory,
        fmt::format(
            "{} takes {} bytes, and {} are left to compile with: allow more (--max-compile-memory)",
            what, bytes, *env_.memory_left));
  *env_.memory_left -= bytes;
}

ValueId NodeContext::cast(ValueId value, DType dtype, bool saturate) {
  if (this->dtype(value) == dtype) return value;
  return add(is_float8(dtype) && !saturate ? "CastUnsaturated" : "Cast", {value}, {{"to", dtype}});
}

void NodeContext::output(std::size_t i, ValueId value) {
  // Nodes may omit trailing outputs.
  if (i < outputs_.size()) outputs_[i] = value;
}

}  // namespace sinter::frontend
