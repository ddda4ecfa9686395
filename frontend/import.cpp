// SPDX-License-Identifier: Apache-2.0
#include "frontend/import.h"

#include <algorithm>
#include <cctype>
#include <exception>
#include <filesystem>
#include <map>
#include <set>

#include <onnx.pb.h>
#include <sinter/file_error.h>

#include "frontend/bodies.h"
#include "frontend/model/fingerprint.h"
#include "frontend/model/initializers.h"
#include "frontend/model/model_file.h"
#include "frontend/model/structure.h"
#include "frontend/ops/table/input_names.h"
#include "frontend/ops/table/op_table.h"
#include "frontend/scope.h"
#include "frontend/symbols/assumptions.h"
#include "frontend/symbols/exported_ranges.h"
#include "frontend/symbols/inputs.h"
#include "ir/text/shown.h"
#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  const auto parent = path.parent_path();
  return parent.empty() ? std::filesystem::path(".") : parent;
}

/// The graph's name, restricted to characters that graph text allows.
std::string plain_name(std::string name) {
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name.empty() ? "main" : name;
}

class Importer {
 public:
  Importer(std::shared_ptr<const onnx::ModelProto> model, const std::filesystem::path& folder,
           const ImportOptions& options)
      : model_(std::move(model)),
        graph_(model_->graph()),
        options_(options),
        builder_(plain_name(graph_.name())),
        state_(builder_, folder, *model_) {
    state_.strict = options.strict;
    state_.pad_selections = options.pad_selections;
    state_.custom_operators = options.custom_operators;
    state_.reads = options.reads;
    state_.memory_left = options.max_memory;
    state_.data_sizes.start(options.bounds);
    if (options.on_node)
      state_.on_node = [this](std::size_t done) {
        // The total grows: functions and loops add nodes to those in the file.
        options_.on_node(done, std::max(done, static_cast<std::size_t>(graph_.node_size())));
      };
  }

  ImportedModel run(const ModelBytes& source) {
    if (!model_->has_graph())
      throw invalid_model_error(
          "the model has no graph: the file is truncated, or not an ONNX model");
    const Opsets opsets = checked_opsets(*model_);
    if (model_->training_info_size() > 0)
      state_.warn("the model's training information is ignored");
    Hasher hasher;
    source.for_each_block([&](std::span<const std::byte> block) { hasher.add(block); });
    state_.on_external = [&](std::span<const std::byte> external) { hasher.add(external); };
    Scope scope(state_, {model_, opsets, "", nullptr});
    const Body body = body_of(graph_, Body::Kind::kModel);
    scope.read_initializers(graph_);
    read_graph_inputs(scope);
    scope.note_declared_types(graph_);
    scope.import_nodes(body);
    refuse_unsupported(drop_outputs(scope));
    read_graph_outputs(scope);

    if (const auto unused = state_.data_sizes.unused(); !unused.empty())
      throw usage_error("--bound: no value or node whose size follows from data is called '{}'",
                        fmt::join(unused, "', '"));
    for (std::string& note : state_.default_ranges.notes())
      state_.warnings.push_back(std::move(note));
    ImportedModel result{builder_.finish()};
    result.hash = hasher.digest();
    result.node_count = static_cast<std::size_t>(graph_.node_size());
    if (const auto opset = opsets.find(""); opset != opsets.end()) result.opset = opset->second;
    result.producer = model_->producer_name();
    if (!model_->producer_version().empty()) result.producer += " " + model_->producer_version();
    result.warnings = std::move(state_.warnings);
    result.nodes = std::move(state_.nodes);
    result.input_texts = std::move(input_texts_);
    result.output_texts = std::move(output_texts_);
    result.files = state_.external.paths();
    return result;
  }

  ModelWeights run_weights(const ModelBytes& source) {
    Hasher hasher;
    source.for_each_block([&](std::span<const std::byte> block) { hasher.add(block); });
    state_.on_external = [&](std::span<const std::byte> external) { hasher.add(external); };
    Scope scope(state_, {model_, checked_opsets(*model_), "", nullptr});
    scope.read_initializers(graph_);
    return {{scope.initializers().begin(), scope.initializers().end()},
            hasher.digest(),
            structure_of(*model_)};
  }

  /// The symbols, with their ranges as narrowed by nodes so far.
  KnownSymbols symbols() const {
    KnownSymbols known{builder_.ranges(), {}};
    for (const auto& [input, name] : inputs_)
      if (const ir::Shape& shape = builder_.type(input).shape; shape.size() > 1)
        for (std::string& symbol : shape[0].symbols()) known.leading.insert(std::move(symbol));
    return known;
  }

  const std::string& name_of(ir::ValueId input) const { return inputs_.at(input); }

  /// A graph with only the model's inputs.
  ir::Graph run_inputs() {
    Scope scope(state_, {model_, checked_opsets(*model_), "", nullptr});
    scope.read_initializers(graph_);
    read_graph_inputs(scope);
    // A graph needs outputs: the inputs themselves, or a dummy number if there are none.
    for (const auto& [value, name] : inputs_) builder_.output(name, value);
    if (inputs_.empty()) builder_.output("none", builder_.scalar(DType::kInt64, 0));
    return builder_.finish();
  }

 private:
  void read_graph_inputs(Scope& scope) {
    GraphInputs inputs =
        read_inputs(graph_, scope.initializer_names(), options_, state_.warnings, state_.texts);
    for (const auto& [symbol, range] : inputs.ranges) builder_.range(symbol, range);
    state_.default_ranges.start(std::move(inputs.defaulted));
    for (GraphInput& input : inputs.inputs) {
      const auto given = options_.input_values.find(input.name);
      scope.define(input.name,
                   given == options_.input_values.end()
                       ? builder_.input(input.name, std::move(input.type))
                       : builder_.constant(given->second, input.name),
                   input.text);
      if (input.text) input_texts_.emplace(input.name, *input.text);
      if (given != options_.input_values.end()) continue;
      const ir::ValueId value = scope.find_value(input.name);
      inputs_.emplace(value, input.name);
      if (const auto flag = options_.flags.find(input.name); flag != options_.flags.end())
        state_.folder.assume(value, flag->second ? 1 : 0);
      state_.data_sizes.note_value(value, input.name);
    }
  }

  /// Outputs that depend on unsupported nodes, and the others.
  std::pair<std::vector<std::string>, std::vector<std::string>> outputs_by_support(Scope& scope) {
    std::pair<std::vector<std::string>, std::vector<std::string>> result;
    for (const auto& output : graph_.output()) {
      const bool is_known =
          scope.find_value(output.name()).valid() && !scope.unreadable_type(output.name());
      (is_known ? result.second : result.first).push_back(output.name());
    }
    return result;
  }

  /// Drops unsupported outputs if the options allow it; returns the remaining ones.
  std::vector<std::string> drop_outputs(Scope& scope) {
    const auto [dropped, kept] = outputs_by_support(scope);
    if (!options_.drop_unsupported_outputs || dropped.empty() || kept.empty()) return kept;
    std::vector<std::string> nodes;
    for (const UnsupportedNode& each : state_.unsupported)
      nodes.push_back(fmt::format("'{}' ({})", each.node.name, each.node.op));
    state_.warn(
        fmt::format("output{} '{}' {} left out: not supported {} {}",
                    dropped.size() == 1 ? "" : "s", fmt::join(dropped, "', '"),
                    dropped.size() == 1 ? "is" : "are", nodes.size() == 1 ? "is" : "are",
                    nodes.empty() ? "its type" : fmt::format("{}", fmt::join(nodes, ", "))));
    dropped_ = {dropped.begin(), dropped.end()};
    state_.unsupported.clear();
    return kept;
  }

  void refuse_unsupported(const std::vector<std::string>& kept) const {
    std::vector<UnsupportedNode> unsupported = state_.unsupported;
    if (unsupported.empty()) return;
    // Unrolled loops and frequently called functions would otherwise flood the list.
    constexpr std::size_t kShown = 100;
    std::vector<std::string> shown;
    for (std::size_t i = 0; i < std::min(unsupported.size(), kShown); ++i) {
      const auto& [node, why, own_way] = unsupported[i];
      shown.push_back(ir::shown(fmt::format("'{}' ({}) on ({}): {}{}{}", node.name, node.op,
                                            fmt::join(node.inputs, ", "), why,
                                            own_way.empty() ? "" : ": ", own_way)));
    }
    std::vector<std::string> needed;
    for (const ir::ValueId input : state_.folder.needed_inputs())
      needed.push_back(inputs_.at(input));
    const std::string hint =
        needed.empty()
            ? "exporting with fixed shapes or another opset may avoid the others"
            : fmt::format("to compile for one value of an input, give it: --constant {}=FILE",
                          ir::shown(fmt::format("{}", fmt::join(needed, "=FILE --constant "))));
    std::string message = fmt::format(
        "{} of the model's {} nodes {} not supported:\n  {}{}\n(operators of "
        "ai.onnx {} to {} that 'sinter ops' lists are; {}{})",
        unsupported.size(), graph_.node_size(), unsupported.size() == 1 ? "is" : "are",
        fmt::join(shown, "\n  "),
        unsupported.size() > kShown ? fmt::format("\n  and {} more", unsupported.size() - kShown)
                                    : "",
        kMinOpset, kMaxOpset, hint,
        kept.empty()
            ? ""
            : ir::shown(fmt::format("; --drop-unsupported-outputs compiles the others: '{}'",
                                    fmt::join(kept, "', '"))));
    for (UnsupportedNode& each : unsupported)
      if (each.hint.empty())
        each.hint = needed.empty() ? "export with fixed shapes or another opset" : hint;
    throw UnsupportedModel(std::move(message), std::move(unsupported), std::move(needed));
  }

  void read_graph_outputs(Scope& scope) {
    for (const auto& output : graph_.output()) {
      if (dropped_.count(output.name()) != 0) continue;
      const ir::ValueId value = scope.find_value(output.name());
      const auto lacking = scope.unreadable_type(output.name());
      if (!value.valid() || lacking)
        throw unsupported_error("output '{}' has element type {}, which is not supported",
                                output.name(), onnx_type_name(lacking.value_or(0)));
      if (const TextPtr text = scope.text_of(output.name()))
        output_texts_.emplace(output.name(), *text);
      else
        check_declared_output(output, builder_.type(value));
      builder_.output(output.name(), value);
    }
  }

  void check_declared_output(const onnx::ValueInfoProto& output, const ir::TensorType& type) {
    if (output.type().value_case() == onnx::TypeProto::VALUE_NOT_SET) return;
    if (!output.type().has_tensor_type())
      throw invalid_model_error(
          "output '{}' is declared as something other than a tensor, but is {}", output.name(),
          ir::to_string(type));
    const auto& tensor = output.type().tensor_type();
    if (tensor.elem_type() != 0 && dtype_of(tensor.elem_type()) != type.dtype)
      throw invalid_model_error(
          "output '{}' is declared with element type {}, but its node makes {}", output.name(),
          onnx_type_name(tensor.elem_type()), ir::to_string(type));
    if (!tensor.has_shape()) return;
    bool agrees = static_cast<std::size_t>(tensor.shape().dim_size()) == type.shape.size();
    for (int i = 0; agrees && i < tensor.shape().dim_size(); ++i) {
      const ir::Dim& dim = type.shape[static_cast<std::size_t>(i)];
      if (tensor.shape().dim(i).has_dim_value() && dim.is_constant())
        agrees = tensor.shape().dim(i).dim_value() == dim.value();
    }
    // A warning only: exporters often declare wrong output shapes, and other runtimes accept them.
    if (!agrees)
      state_.warn(fmt::format("output '{}' is declared with another shape than the {} that it has",
                              output.name(), ir::to_string(type)));
  }

  std::shared_ptr<const onnx::ModelProto> model_;
  const onnx::GraphProto& graph_;
  const ImportOptions& options_;
  ir::GraphBuilder builder_;
  ImportState state_;
  std::map<ir::ValueId, std::string> inputs_;
  std::map<std::string, BindingText> input_texts_, output_texts_;
  std::set<std::string> dropped_;  // names of dropped outputs
};

/// Imports with the fewest assumptions about the inputs that make all shapes fit.
ImportedModel import_of_ranks(const std::shared_ptr<const onnx::ModelProto>& model,
                              const std::filesystem::path& folder, const ImportOptions& options,
                              const ModelBytes& source) {
  constexpr std::size_t kMostAssumptions = 32;
  ImportOptions assumed = options;
  std::vector<std::string> notes;
  read_metadata(*model, assumed, notes);
  const std::size_t given = notes.size();
  std::optional<std::string> flag;
  for (;;) {
    std::optional<Importer> importer;
    const auto import_one = [&](const ImportOptions& one) {
      return importer.emplace(model, folder, one).run(source);
    };
    try {
      ImportedModel result = flag ? import_bodies(*flag, assumed, import_one) : import_one(assumed);
      result.warnings.insert(result.warnings.begin(), notes.begin(), notes.end());
      result.structure = structure_of(*model);
      result.reads = options.reads;
      for (std::string& warning : result.warnings) warning = ir::shown(warning);
      return result;
    } catch (const FlagNeeded& needed) {
      const std::string& input = importer->name_of(needed.input());
      if (flag)
        throw unsupported_error(
            "which nodes are run follows from inputs '{}' and '{}': one can "
            "be left open, so give the other (--constant {}=FILE)",
            *flag, input, input);
      flag = input;
    } catch (const ir::DimMismatch& mismatch) {
      auto assumption = notes.size() < given + kMostAssumptions
                            ? assume_equal(mismatch, importer->symbols(), assumed)
                            : std::nullopt;
      if (!assumption) {
        const std::string option = option_for(mismatch, importer->symbols());
        if (option.empty()) throw;
        Error error(mismatch.code(),
                    fmt::format("{}: {} makes the two sizes equal", mismatch.what(), option));
        error.set_node(mismatch.node());
        throw error;
      }
      notes.push_back(std::move(assumption->text));
    }
  }
}

/// The same for models with inputs of which not even a rank is known: all get the first that the
/// nodes take.
ImportedModel import_assuming(const std::shared_ptr<const onnx::ModelProto>& model,
                              const std::filesystem::path& folder, const ImportOptions& options,
                              const ModelBytes& source) {
  const auto names = inputs_without_rank(model->graph(), options);
  if (names.empty() || options.strict) return import_of_ranks(model, folder, options, source);
  std::exception_ptr first;
  for (const std::size_t rank : {2, 4, 3, 1, 5}) {  // tables, images, texts
    ImportOptions ranks = options;
    for (const std::string& name : names) ranks.input_ranks[name] = rank;
    try {
      ImportedModel result = import_of_ranks(model, folder, ranks, source);
      for (const std::string& name : names)
        result.warnings.push_back(ir::shown(fmt::format(
            "input '{0}' has no shape in the model: taken as one of {1} dimensions (others: "
            "--minShapes {0}:1x1 --maxShapes {0}:8x64)",
            name, rank)));
      return result;
    } catch (const Error&) {
      if (!first) first = std::current_exception();
    }
  }
  std::rethrow_exception(first);
}

/// Runs `body`; escapes names in the message of an Error, so that it is one line.
template <typename Body>
decltype(auto) with_names_shown(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const UnsupportedModel&) {
    throw;  // its message has several lines, and its names are escaped already
  } catch (const FileError& error) {
    throw FileError(error.code(), ir::shown(error.what()), error.path(), error.number());
  } catch (const Error& error) {
    Error shown(error.code(), ir::shown(error.what()));
    shown.set_node(error.node());
    throw shown;
  }
}

}  // namespace

ImportedModel import_model(const std::string& path, const ImportOptions& options) {
  const auto file = MappedFile::open(path);
  const ModelBytes source{file->bytes(), file.get()};
  const auto model = parse_model(source, path);
  return with_context(fmt::format("model '{}'", path), [&] {
    return with_names_shown(
        [&] { return import_assuming(model, folder_of(path), options, source); });
  });
}

ir::Graph import_inputs(const std::string& path, const ImportOptions& options) {
  const auto file = MappedFile::open(path);
  const auto model = parse_model({file->bytes(), file.get()}, path);
  return with_context(fmt::format("model '{}'", path), [&] {
    return with_names_shown([&] { return Importer(model, folder_of(path), options).run_inputs(); });
  });
}

ir::Graph import_inputs_bytes(std::span<const std::byte> bytes, const std::string& folder,
                              const ImportOptions& options) {
  const auto model = parse_model({bytes}, "model");
  return with_names_shown([&] { return Importer(model, folder, options).run_inputs(); });
}

ImportedModel import_model_bytes(std::span<const std::byte> bytes, const std::string& folder,
                                 const ImportOptions& options) {
  const ModelBytes source{bytes};
  const auto model = parse_model(source, "model");
  return with_names_shown([&] { return import_assuming(model, folder, options, source); });
}

ModelWeights read_weights(const std::string& path) {
  const auto file = MappedFile::open(path);
  const ModelBytes source{file->bytes(), file.get()};
  const auto model = parse_model(source, path);
  return with_context(fmt::format("model '{}'", path), [&] {
    return with_names_shown(
        [&] { return Importer(model, folder_of(path), {}).run_weights(source); });
  });
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
