// SPDX-License-Identifier: Apache-2.0
#include "frontend/export/export.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <onnx.pb.h>
#include <sinter/version.h>

#include "ir/scale_format.h"
#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

using ir::Graph;
using ir::Node;
using ir::OpKind;
using ir::ValueId;

constexpr const char* kOurs = "sinter";
constexpr const char* kKernels = "sinter.kernels";
constexpr std::int64_t kOpset = 17;
constexpr std::int64_t kIrVersion = 8;  // the first with model-local functions

/// Operators without attributes that ONNX defines equally.
const std::set<std::string_view>& plain_operators() {
  static const std::set<std::string_view> all = {"Abs",
                                                 "Acos",
                                                 "Acosh",
                                                 "Add",
                                                 "And",
                                                 "Asin",
                                                 "Asinh",
                                                 "Atan",
                                                 "Atanh",
                                                 "Ceil",
                                                 "Cos",
                                                 "Cosh",
                                                 "Div",
                                                 "Equal",
                                                 "Erf",
                                                 "Exp",
                                                 "Floor",
                                                 "Greater",
                                                 "GreaterOrEqual",
                                                 "Less",
                                                 "LessOrEqual",
                                                 "Log",
                                                 "MatMul",
                                                 "Max",
                                                 "Min",
                                                 "Mul",
                                                 "Neg",
                                                 "Not",
                                                 "Or",
                                                 "Pow",
                                                 "Reciprocal",
                                                 "Relu",
                                                 "Round",
                                                 "Sigmoid",
                                                 "Sign",
                                                 "Sin",
                                                 "Sinh",
                                                 "Softplus",
                                                 "Softsign",
                                                 "Sqrt",
                                                 "Sub",
                                                 "Tan",
                                                 "Tanh",
                                                 "Where",
                                                 "Xor"};
  return all;
}

int onnx_type(DType dtype) {
  using onnx::TensorProto;
  constexpr std::array<int, kDTypeCount> types = {
      TensorProto::BOOL,
      TensorProto::INT8,
      TensorProto::INT16,
      TensorProto::INT32,
      TensorProto::INT64,
      TensorProto::UINT8,
      TensorProto::UINT16,
      TensorProto::UINT32,
      TensorProto::UINT64,
      TensorProto::FLOAT16,
      TensorProto::BFLOAT16,
      TensorProto::FLOAT,
      TensorProto::DOUBLE,
      17 /* FLOAT8E4M3FN, newer than the generated classes */,
      19 /* FLOAT8E5M2 */,
      18 /* FLOAT8E4M3FNUZ */,
      20 /* FLOAT8E5M2FNUZ */};
  return types[static_cast<std::size_t>(dtype)];
}

void set_type(const ir::TensorType& type, onnx::ValueInfoProto& info) {
  auto* tensor = info.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(onnx_type(type.dtype));
  auto* shape = tensor->mutable_shape();
  for (const ir::Dim& dim : type.shape) {
    auto* each = shape->add_dim();
    if (dim.is_constant())
      each->set_dim_value(dim.value());
    else
      each->set_dim_param(dim.to_string());
  }
}

void set_tensor(const ir::Tensor& tensor, onnx::TensorProto& proto) {
  proto.set_data_type(onnx_type(tensor.dtype()));
  for (const std::int64_t dim : tensor.shape()) proto.add_dims(dim);
  const ir::HeldBytes held = tensor.hold();
  proto.set_raw_data(held.bytes.data(), held.bytes.size());
}

onnx::AttributeProto& add_attribute(onnx::NodeProto& node, const std::string& name,
                                    onnx::AttributeProto::AttributeType type) {
  auto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(type);
  return *attribute;
}

struct AttributeWriter {
  onnx::NodeProto& node;
  const std::string& name;

  void operator()(std::int64_t value) const {
    add_attribute(node, name, onnx::AttributeProto::INT).set_i(value);
  }
  void operator()(double value) const {
    add_attribute(node, name, onnx::AttributeProto::FLOAT).set_f(static_cast<float>(value));
  }
  void operator()(const std::string& value) const {
    add_attribute(node, name, onnx::AttributeProto::STRING).set_s(value);
  }
  void operator()(const ir::Ints& values) const {
    auto& attribute = add_attribute(node, name, onnx::AttributeProto::INTS);
    for (const std::int64_t value : values) attribute.add_ints(value);
  }
  void operator()(const std::vector<ir::Dim>& values) const {
    auto& attribute = add_attribute(node, name, onnx::AttributeProto::STRINGS);
    for (const ir::Dim& value : values) attribute.add_strings(value.to_string());
  }
  void operator()(DType value) const {
    add_attribute(node, name, onnx::AttributeProto::STRING).set_s(std::string(to_string(value)));
  }
};

/// Whether ONNX's operator of this name has the same meaning and attributes.
bool is_onnx(const Node& node) {
  static const std::set<std::string_view> reductions = {"ReduceMax", "ReduceMean", "ReduceMin",
                                                        "ReduceProd", "ReduceSumSquare"};
  const auto& attributes = node.attrs.values();
  const auto has_only = [&](std::initializer_list<std::string_view> names) {
    return attributes.size() == names.size() &&
           std::ranges::all_of(names, [&](auto name) { return node.attrs.has(name); });
  };
  if (attributes.empty() || ir::is_plain_matmul(node))
    return plain_operators().contains(node.op->name);
  if (node.op->name == "Transpose") return has_only({"perm"});
  if (node.op->name == "Cast") return has_only({"to"});
  return reductions.contains(node.op->name) && has_only({"axes", "keepdims"});
}

class Exporter {
 public:
  explicit Exporter(const ExportOptions& options) : options_(options) {}

  ExportedModel run(const Graph& graph) {
    model_.set_ir_version(kIrVersion);
    model_.set_producer_name("sinter");
    model_.set_producer_version(SINTER_VERSION);
    model_.set_doc_string(
        "The fused graph of Sinter, to be looked at: each function of the domain sinter.kernels is "
        "one kernel or library call. It is not for running.");
    for (const auto& [domain, version] : domains()) {
      auto* opset = model_.add_opset_import();
      opset->set_domain(domain);
      opset->set_version(version);
    }
    auto* main = model_.mutable_graph();
    is_main_ = true;
    write_graph(graph, *main, "");
    if (!result_.left_out.empty()) {
      auto* entry = model_.add_metadata_props();
      entry->set_key("sinter.constants_left_out");
      entry->set_value(fmt::format("{}", fmt::join(result_.left_out, ", ")));
    }
    if (model_.ByteSizeLong() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
      throw unsupported_error(
          "the ONNX model would have {} bytes, which protobuf does not allow: "
          "leave its weights out",
          model_.ByteSizeLong());
    result_.bytes = model_.SerializeAsString();
    return std::move(result_);
  }

 private:
  /// Names of a graph's values, unique among all enclosing graphs.
  struct Names {
    std::vector<std::string> of;
    std::map<std::string, int> taken;

    std::string make(std::string wanted) {
      const int times = taken[wanted]++;
      if (times == 0) return wanted;
      return make(fmt::format("{}_{}", wanted, times));
    }
  };

  static std::vector<std::pair<std::string, std::int64_t>> domains() {
    return {{"", kOpset}, {kOurs, 1}, {kKernels, 1}};
  }

  static void add_origins(const Node& node, onnx::NodeProto& proto) {
    if (node.origins.empty()) return;
    constexpr std::size_t kMost = 3;
    const std::size_t shown = std::min(kMost, node.origins.size());
    std::string name = fmt::format(
        "{}", fmt::join(node.origins.begin(),
                        node.origins.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
    if (shown < node.origins.size()) name += fmt::format(" +{}", node.origins.size() - shown);
    proto.set_name(name);
    proto.set_doc_string(fmt::format("from {}", fmt::join(node.origins, ", ")));
  }

  /// Names all values; those of a nested graph start with `prefix`.
  static Names name_values(const Graph& graph, const std::string& prefix) {
    Names names;
    names.of.resize(graph.values().size());
    const auto name = [&](ValueId id, const std::string& fallback) {
      std::string& own = names.of[id.position()];
      if (own.empty()) own = names.make(prefix + (fallback.empty() ? "value" : fallback));
    };
    for (const ValueId input : graph.inputs()) name(input, graph.value(input).name);
    if (prefix.empty())
      for (std::size_t i = 0; i < graph.outputs().size(); ++i)
        if (graph.producer(graph.outputs()[i]) != nullptr)
          name(graph.outputs()[i], graph.output_names()[i]);
    for (std::size_t i = 0; i < graph.values().size(); ++i) {
      const ValueId id{static_cast<std::int32_t>(i)};
      name(id, graph.value(id).name.empty() ? fmt::format("v{}", i) : graph.value(id).name);
    }
    return names;
  }

  /// Unique names for the outputs of a function or graph.
  template <typename Proto>
  static std::vector<std::string> output_names(const Graph& graph, Names& names, Proto& proto,
                                               const std::string& prefix,
                                               bool as_the_model_names_them) {
    std::vector<std::string> all;
    std::set<std::int32_t> given;
    for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
      const ValueId value = graph.outputs()[i];
      const std::string& wanted = graph.output_names()[i];
      const std::string& own = names.of[value.position()];
      if (graph.producer(value) != nullptr && given.insert(value.index).second &&
          (!as_the_model_names_them || own == wanted)) {
        all.push_back(own);
        continue;
      }
      auto* copy = proto.add_node();
      copy->set_op_type("Identity");
      copy->add_input(own);
      all.push_back(names.make(prefix + (wanted.empty() ? "result" : wanted)));
      copy->add_output(all.back());
    }
    return all;
  }

  void write_graph(const Graph& graph, onnx::GraphProto& proto, const std::string& prefix) {
    proto.set_name(graph.name().empty() ? "graph" : graph.name());
    Names names = name_values(graph, prefix);
    const bool is_main = std::exchange(is_main_, false);
    for (const ValueId input : graph.inputs()) {
      auto* info = proto.add_input();
      info->set_name(names.of[input.position()]);
      set_type(graph.type(input), *info);
    }
    for (std::size_t i = 0; i < graph.values().size(); ++i) {
      const ir::Value& value = graph.values()[i];
      if (!value.constant) continue;
      if (is_main && value.constant->byte_count() > options_.largest_constant) {
        auto* info = proto.add_input();
        info->set_name(names.of[i]);
        info->set_doc_string("a constant, whose value is left out");
        set_type(value.type, *info);
        result_.left_out.push_back(names.of[i]);
      } else if (is_main) {
        auto* initializer = proto.add_initializer();
        set_tensor(*value.constant, *initializer);
        initializer->set_name(names.of[i]);
      } else {
        add_constant(*value.constant, names.of[i], *proto.add_node());
      }
    }
    for (const Node& node : graph.nodes()) {
      add_node(node, names, prefix, proto);
      for (const ValueId output : node.outputs)
        if (!graph.is_output(output)) {
          auto* info = proto.add_value_info();
          info->set_name(names.of[output.position()]);
          set_type(graph.type(output), *info);
        }
    }
    const auto outputs = output_names(graph, names, proto, prefix, prefix.empty());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      auto* info = proto.add_output();
      info->set_name(outputs[i]);
      set_type(graph.type(graph.outputs()[i]), *info);
    }
  }

  void add_constant(const ir::Tensor& tensor, const std::string& name, onnx::NodeProto& node) {
    node.set_op_type("Constant");
    node.add_output(name);
    if (tensor.byte_count() <= options_.largest_constant) {
      set_tensor(tensor, *add_attribute(node, "value", onnx::AttributeProto::TENSOR).mutable_t());
      return;
    }
    node.set_domain(kOurs);
    add_attribute(node, "type", onnx::AttributeProto::STRING).set_s(ir::to_string(tensor.type()));
  }

  /// Adds a local function for a kernel; returns its name.
  std::string add_function(const Node& node) {
    std::string kind = node.attrs.has("kind") ? node.attrs.get_string("kind") : "region";
    std::string name = fmt::format("{}_{}", kind, result_.kernels++);
    // Nested functions are added while this one is written.
    onnx::FunctionProto function;
    function.set_name(name);
    function.set_domain(kKernels);
    if (!node.origins.empty())
      function.set_doc_string(fmt::format("from {}", fmt::join(node.origins, ", ")));
    for (const auto& [domain, version] : domains()) {
      auto* opset = function.add_opset_import();
      opset->set_domain(domain);
      opset->set_version(version);
    }
    const Graph& body = *node.body;
    Names names = name_values(body, "");
    for (const ValueId input : body.inputs()) function.add_input(names.of[input.position()]);
    for (std::size_t i = 0; i < body.values().size(); ++i)
      if (const auto& constant = body.values()[i].constant)
        add_constant(*constant, names.of[i], *function.add_node());
    for (const Node& inner : body.nodes()) add_node(inner, names, "", function);
    for (const auto& output : output_names(body, names, function, "", false))
      function.add_output(output);
    *model_.add_functions() = std::move(function);
    return name;
  }

  template <typename Proto>
  void add_node(const Node& node, const Names& names, const std::string& prefix, Proto& parent) {
    onnx::NodeProto proto;
    add_origins(node, proto);
    for (const ValueId input : node.inputs) proto.add_input(names.of[input.position()]);
    for (const ValueId output : node.outputs) proto.add_output(names.of[output.position()]);
    if (node.op->kind == OpKind::kFused && node.body) {
      proto.set_op_type(add_function(node));
      proto.set_domain(kKernels);
    } else {
      proto.set_op_type(node.op->name);
      const bool is_standard = is_onnx(node);
      if (!is_standard) proto.set_domain(kOurs);
      for (const auto& [name, value] : node.attrs.values()) {
        if (ir::is_plain_matmul(node)) continue;  // format attributes of a MatMul without formats
        if (is_standard && name == "to")
          add_attribute(proto, name, onnx::AttributeProto::INT)
              .set_i(onnx_type(node.attrs.get_dtype(name)));
        else
          std::visit(AttributeWriter{proto, name}, value);
      }
      if (node.body)
        write_graph(*node.body,
                    *add_attribute(proto, "body", onnx::AttributeProto::GRAPH).mutable_g(),
                    fmt::format("{}body{}/", prefix, bodies_++));
    }
    *parent.add_node() = std::move(proto);
  }

  const ExportOptions& options_;
  onnx::ModelProto model_;
  ExportedModel result_;
  bool is_main_ = false;
  int bodies_ = 0;
};

}  // namespace

ExportedModel export_onnx(const Graph& graph, const ExportOptions& options) {
  return Exporter(options).run(graph);
}

}  // namespace sinter::frontend
