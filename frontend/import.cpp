#include "frontend/import.h"

#include <fmt/format.h>
#include <onnx.pb.h>
#include <sinter/error.h>

#define XXH_INLINE_ALL
#include <cctype>
#include <filesystem>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include <xxhash.h>

#include "frontend/external_data.h"
#include "frontend/initializers.h"
#include "frontend/inputs.h"
#include "frontend/model_file.h"
#include "frontend/node_context.h"
#include "frontend/ops/op_table.h"
#include "frontend/shape_folding.h"
#include "frontend/structure.h"

namespace sinter::frontend {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  const auto parent = path.parent_path();
  return parent.empty() ? std::filesystem::path(".") : parent;
}

/// The graph's name as far as graph text can hold it.
std::string plain_name(std::string name) {
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name.empty() ? "main" : name;
}

/// XXH3 of several runs of bytes.
class Hasher {
 public:
  Hasher() : state_(XXH3_createState()) { XXH3_64bits_reset(state_); }
  ~Hasher() { XXH3_freeState(state_); }
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void add(std::span<const std::byte> bytes) {
    XXH3_64bits_update(state_, bytes.data(), bytes.size());
  }
  std::uint64_t digest() const { return XXH3_64bits_digest(state_); }

 private:
  XXH3_state_t* state_;
};

class Importer {
 public:
  Importer(std::shared_ptr<const onnx::ModelProto> model, const std::filesystem::path& folder,
           const ImportOptions& options)
      : model_(std::move(model)),
        graph_(model_->graph()),
        options_(options),
        external_(folder),
        builder_(plain_name(graph_.name())),
        folder_(builder_) {}

  ImportedModel run(std::span<const std::byte> bytes) {
    if (!model_->has_graph())
      throw Error(ErrorCode::kInvalidModel,
                  "the model has no graph: the file is truncated, or not an ONNX model");
    opset_ = checked_opset(*model_);
    structure_ = check_structure(graph_);
    if (!structure_.was_sorted)
      warn("the nodes are not in topological order, which ONNX requires; they have been sorted");
    if (graph_.sparse_initializer_size() > 0)
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("initializer '{}' is sparse; only dense ones are supported",
                              graph_.sparse_initializer(0).values().name()));
    if (model_->training_info_size() > 0) warn("the model's training information is ignored");
    Hasher hasher;
    hasher.add(bytes);
    read_initializers(hasher);
    read_graph_inputs();
    note_declared_types();
    for (const int index : structure_.order) import_node(index);
    refuse_unsupported();
    read_graph_outputs();

    ImportedModel result{builder_.finish()};
    result.hash = hasher.digest();
    result.node_count = static_cast<std::size_t>(graph_.node_size());
    result.opset = opset_;
    result.producer = model_->producer_name();
    if (!model_->producer_version().empty()) result.producer += " " + model_->producer_version();
    result.warnings = std::move(warnings_);
    return result;
  }

 private:
  void warn(std::string text) { warnings_.push_back(std::move(text)); }

  void read_initializers(Hasher& hasher) {
    for (const auto& proto : graph_.initializer()) {
      initializer_names_.insert(proto.name());
      // A tensor of a type that Sinter lacks may belong to a node that is refused by name, or to
      // none: it is an error where it is used.
      if (!dtype_of(proto.data_type())) {
        unreadable_.emplace(proto.name(), proto.data_type());
        continue;
      }
      ir::Tensor tensor = read_tensor(proto, model_, external_);
      if (proto.data_location() == onnx::TensorProto::EXTERNAL) hasher.add(tensor.bytes());
      initializers_.emplace(proto.name(), std::move(tensor));
    }
  }

  void read_graph_inputs() {
    GraphInputs inputs = read_inputs(graph_, initializer_names_, options_, warnings_);
    for (const auto& [symbol, range] : inputs.ranges) builder_.range(symbol, range);
    defaulted_ = std::move(inputs.defaulted);
    for (GraphInput& input : inputs.inputs) {
      const ir::ValueId value = builder_.input(input.name, std::move(input.type));
      values_.emplace(std::move(input.name), value);
    }
  }

  /// Shapes that the model declares, for messages about nodes whose inputs could not be imported.
  void note_declared_types() {
    for (const auto& info : graph_.value_info())
      if (info.type().has_tensor_type()) declared_.emplace(info.name(), &info);
  }

  /// The value named `name`, or an invalid id if it depends on an unsupported node.
  ir::ValueId find_value(const std::string& name) {
    if (const auto found = values_.find(name); found != values_.end()) return found->second;
    const auto initializer = initializers_.find(name);
    if (initializer == initializers_.end()) return {};
    const ir::ValueId value = builder_.constant(initializer->second, name);
    values_.emplace(name, value);
    return value;
  }

  void import_node(int index) {
    const auto& node = graph_.node(index);
    const std::string label = node_label(node, index);
    const OpRow* row =
        is_onnx_domain(node.domain()) ? find_op_row(node.op_type(), opset_) : nullptr;
    bool inputs_known = true;
    std::vector<ir::ValueId> inputs;
    for (const std::string& name : node.input()) {
      inputs.push_back(name.empty() ? ir::ValueId{} : find_value(name));
      if (name.empty() || inputs.back().valid()) continue;
      inputs_known = false;
      // Unless the value comes from a node that is refused already, the reason is here.
      if (const auto type = unreadable_.find(name); type != unreadable_.end() && row != nullptr)
        note_unsupported(
            node, label,
            fmt::format("input '{}' has element type {}", name, onnx_type_name(type->second)));
    }
    if (row == nullptr) {
      note_unsupported(node, label,
                       is_onnx_domain(node.domain()) && is_known_op(node.op_type())
                           ? fmt::format("the operator does not exist in opset {}", opset_)
                           : "the operator is not known");
      return;
    }
    if (!inputs_known) return;

    std::vector<bool> used;
    for (const std::string& name : node.output())
      used.push_back(!name.empty() && structure_.used.count(name) != 0);
    NodeContext context(
        node, {builder_, folder_, external_, model_, opset_, label, defaulted_, warnings_},
        std::move(inputs), std::move(used));
    try {
      const ir::GraphBuilder::OriginScope scope(builder_, {label});
      row->import(context);
      set_outputs(node, context);
    } catch (Error& error) {
      if (error.code() == ErrorCode::kUnsupported) {
        note_unsupported(node, label, error.what());
        return;
      }
      error.add_context(fmt::format("importing node '{}' ({}-{})", label, node.op_type(), opset_));
      throw;
    }
    for (const std::string& name : context.unread_attributes())
      warn(fmt::format("attribute '{}' of node '{}' ({}-{}) is not known and has been ignored",
                       name, label, node.op_type(), opset_));
  }

  void set_outputs(const onnx::NodeProto& node, NodeContext& context) {
    for (std::size_t i = 0; i < context.output_count(); ++i) {
      if (!context.output_is_used(i)) continue;
      const std::string& name = node.output(static_cast<int>(i));
      ir::ValueId value = context.outputs()[i];
      if (!value.valid())
        throw Error(ErrorCode::kUnsupported,
                    fmt::format("its output {} ('{}') is not supported", i, name));
      value = folder_.simplified(value);
      builder_.name(value, name);
      values_.emplace(name, value);
    }
  }

  std::string describe_input(const std::string& name) const {
    if (name.empty()) return "-";
    if (const auto found = values_.find(name); found != values_.end())
      return ir::to_string(builder_.type(found->second));
    if (const auto found = initializers_.find(name); found != initializers_.end())
      return ir::to_string(found->second.type());
    const auto declared = declared_.find(name);
    if (declared == declared_.end()) return "?";
    const auto& tensor = declared->second->type().tensor_type();
    std::vector<std::string> dims;
    for (const auto& dim : tensor.shape().dim())
      dims.push_back(dim.has_dim_value()       ? std::to_string(dim.dim_value())
                     : dim.dim_param().empty() ? "?"
                                               : dim.dim_param());
    const auto dtype = dtype_of(tensor.elem_type());
    const std::string type_name =
        dtype ? std::string(to_string(*dtype)) : onnx_type_name(tensor.elem_type());
    return tensor.has_shape() ? fmt::format("{}[{}]", type_name, fmt::join(dims, ", "))
                              : type_name + "[?]";
  }

  void note_unsupported(const onnx::NodeProto& node, const std::string& label,
                        const std::string& why) {
    std::vector<std::string> inputs;
    for (const std::string& name : node.input()) inputs.push_back(describe_input(name));
    const std::string domain = is_onnx_domain(node.domain()) ? "" : node.domain() + "::";
    unsupported_.push_back(fmt::format("'{}' ({}{}-{}) on ({}): {}", label, domain, node.op_type(),
                                       version_of(node.domain()), fmt::join(inputs, ", "), why));
  }

  std::int64_t version_of(const std::string& domain) const {
    if (is_onnx_domain(domain)) return opset_;
    for (const auto& import : model_->opset_import())
      if (import.domain() == domain) return import.version();
    return 0;
  }

  void refuse_unsupported() const {
    if (unsupported_.empty()) return;
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{} of the model's {} nodes {} not supported:\n  {}\n(operators of "
                            "ai.onnx {} to {} that 'sinter ops' lists are; exporting with fixed "
                            "shapes or another opset may avoid the others)",
                            unsupported_.size(), graph_.node_size(),
                            unsupported_.size() == 1 ? "is" : "are",
                            fmt::join(unsupported_, "\n  "), kMinOpset, kMaxOpset));
  }

  void read_graph_outputs() {
    for (const auto& output : graph_.output()) {
      const ir::ValueId value = find_value(output.name());
      if (!value.valid())
        throw Error(ErrorCode::kUnsupported,
                    fmt::format("output '{}' is a constant of element type {}", output.name(),
                                onnx_type_name(unreadable_.at(output.name()))));
      check_declared_output(output, builder_.type(value));
      builder_.output(output.name(), value);
    }
  }

  void check_declared_output(const onnx::ValueInfoProto& output, const ir::TensorType& type) {
    if (output.type().value_case() == onnx::TypeProto::VALUE_NOT_SET) return;
    if (!output.type().has_tensor_type())
      throw Error(ErrorCode::kInvalidModel,
                  fmt::format("output '{}' is declared as something other than a tensor, but is {}",
                              output.name(), ir::to_string(type)));
    const auto& tensor = output.type().tensor_type();
    if (tensor.elem_type() != 0 && dtype_of(tensor.elem_type()) != type.dtype)
      throw Error(
          ErrorCode::kInvalidModel,
          fmt::format("output '{}' is declared with element type {}, but its node makes {}",
                      output.name(), onnx_type_name(tensor.elem_type()), ir::to_string(type)));
    if (!tensor.has_shape()) return;
    bool agrees = static_cast<std::size_t>(tensor.shape().dim_size()) == type.shape.size();
    for (int i = 0; agrees && i < tensor.shape().dim_size(); ++i) {
      const ir::Dim& dim = type.shape[static_cast<std::size_t>(i)];
      if (tensor.shape().dim(i).has_dim_value() && dim.is_constant())
        agrees = tensor.shape().dim(i).dim_value() == dim.value();
    }
    // Exporters get declared output shapes wrong often enough that other runtimes accept it.
    if (!agrees)
      warn(fmt::format("output '{}' is declared with another shape than the {} that it has",
                       output.name(), ir::to_string(type)));
  }

  std::shared_ptr<const onnx::ModelProto> model_;
  const onnx::GraphProto& graph_;
  const ImportOptions& options_;
  ExternalData external_;
  ir::GraphBuilder builder_;
  ShapeFolder folder_;
  std::int64_t opset_ = 0;
  GraphStructure structure_;
  std::unordered_set<std::string> initializer_names_;
  std::unordered_map<std::string, ir::Tensor> initializers_;
  std::unordered_map<std::string, int> unreadable_;  // initializers, with their ONNX type
  std::unordered_map<std::string, ir::ValueId> values_;
  std::unordered_map<std::string, const onnx::ValueInfoProto*> declared_;
  std::set<std::string, std::less<>> defaulted_;
  std::vector<std::string> unsupported_;
  std::vector<std::string> warnings_;
};

}  // namespace

ImportedModel import_model(const std::string& path, const ImportOptions& options) {
  const auto file = MappedFile::open(path);
  const auto model = parse_model(file->bytes(), path);
  return with_context(fmt::format("model '{}'", path),
                      [&] { return Importer(model, folder_of(path), options).run(file->bytes()); });
}

ImportedModel import_model_bytes(std::span<const std::byte> bytes, const std::string& folder,
                                 const ImportOptions& options) {
  return Importer(parse_model(bytes, "model"), folder, options).run(bytes);
}

std::vector<SupportedOp> supported_ops() {
  std::vector<SupportedOp> ops;
  for (const OpRow& row : all_op_rows())
    ops.push_back({"ai.onnx", std::string(row.name), row.since_version});
  return ops;
}

ir::Tensor read_tensor_proto(const std::string& path) {
  const auto file = MappedFile::open(path);
  const auto proto = parse_tensor(file->bytes(), path);
  return with_context(fmt::format("'{}'", path), [&] {
    ExternalData external(folder_of(path));
    return read_tensor(*proto, proto, external);
  });
}

}  // namespace sinter::frontend
