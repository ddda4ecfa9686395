// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/build/model_source.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <tuple>

#include "frontend/custom/read_operators.h"
#include "frontend/decoders/import_decoder.h"
#include "fusion/narrow_dims.h"
#include "fusion/paging/decoder_inputs.h"
#include "ir/text/text.h"
#include "runtime/files/input_file.h"
#include "runtime/format_error.h"
#include "runtime/plan/hash.h"
#include "tools/compiler/build/cross_attention.h"
#include "tools/compiler/build/given_vectors.h"
#include "tools/compiler/build/log_mel.h"
#include "tools/compiler/build/pixel_input.h"
#include "tools/compiler/build/transducer.h"
#include "tools/compiler/options/entries.h"
#include "tools/compiler/options/memory.h"
#include "tools/compiler/options/shapes.h"
#include "tools/compiler/run/inputs.h"

namespace sinter::tools {
namespace {

constexpr std::string_view kGraphStart = "graph @";

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Nullopt if the beginning of `text` is not decisive.
std::optional<bool> begins_as_graph(std::string_view text) {
  while (!text.empty()) {
    if (text[0] == '#') {
      text.remove_prefix(std::min(text.find('\n'), text.size()));
    } else if (std::string_view(" \t\n\r").find(text[0]) != std::string_view::npos) {
      text.remove_prefix(1);
    } else if (text.size() < kGraphStart.size() && kGraphStart.starts_with(text)) {
      return std::nullopt;
    } else {
      return text.starts_with(kGraphStart);
    }
  }
  return std::nullopt;
}

/// Narrows the dimensions of a graph that is not ONNX's, and so cannot be imported again. `what`
/// the model is: "Graph text".
ir::Graph with_dims(const ir::Graph& graph, const CompileOptions& options, const std::string& name,
                    std::string_view what) {
  if (options.dims.empty()) return graph;
  const auto wanted = import_options(options, graph);
  if (!wanted.same.empty() || !wanted.multiples.empty())
    throw usage_error(
        "'{}' is {}, whose dimensions can be narrowed, but neither made equal nor multiples: write "
        "--dim NAME=MIN..MAX or NAME=VALUE",
        name, what);
  return fusion::narrow_dims(graph, {wanted.ranges.begin(), wanted.ranges.end()});
}

void refuse_options_of_onnx(const CompileOptions& options, const std::string& name,
                            std::string_view what) {
  if (!options.min_shapes.empty() || !options.max_shapes.empty() || !options.constants.empty() ||
      !options.operators.empty())
    throw usage_error(
        "'{}' is {}, which states its own shapes, constants and operators: --minShapes, "
        "--maxShapes, --constant and --op are for ONNX files",
        name, what);
}

/// Parses Graph text and applies the options that are valid for it.
frontend::ImportedModel read_graph_text(const Model& model, const CompileOptions& options) {
  const std::string name = model.path.empty() ? model.name : model.path;
  constexpr std::string_view kWhat = "Graph text";
  refuse_options_of_onnx(options, name, kWhat);
  std::string storage;
  std::string_view text = text_of(model.bytes);
  if (!model.path.empty()) {
    storage = files::read_file(model.path);
    text = storage;
  }
  frontend::ImportedModel result;
  result.graph =
      with_context(fmt::format("reading '{}'", name), [&] { return ir::parse_graph(text); });
  result.hash = plan::hash64(text);
  result.node_count = result.graph.nodes().size();
  result.graph = with_dims(result.graph, options, name, kWhat);
  return result;
}

/// A decoder from its weights.
frontend::ImportedModel read_decoder(const Model& model, const CompileOptions& options,
                                     const Reporter& reporter) {
  constexpr std::string_view kWhat = "no ONNX file but weights";
  refuse_options_of_onnx(options, model.path, kWhat);
  const bool wants_encoder = !options.decoder.empty();
  if (wants_encoder && options.decoder != model.path)
    throw usage_error("--decoder: '{0}' is a folder of weights, whose decoder is in it: name '{0}'",
                      model.path);
  reporter.progress("import", 0, 1);
  auto result =
      frontend::import_decoder(model.path, std::make_shared<ir::ReadLog>(), wants_encoder);
  result.graph = with_dims(result.graph, options, model.path, kWhat);
  return result;
}

/// The operators of all files. Throws Error(kUsage) for duplicates.
std::shared_ptr<const std::vector<frontend::CustomOperator>> read_operators(
    const std::vector<std::string>& files) {
  if (files.empty()) return nullptr;
  auto all = std::make_shared<std::vector<frontend::CustomOperator>>();
  for (const std::string& file : files)
    for (frontend::CustomOperator& op : frontend::read_custom_operators(file)) {
      const auto known = std::ranges::find_if(
          *all, [&](const auto& other) { return other.full_name() == op.full_name(); });
      if (known != all->end())
        throw usage_error("operator '{}' is defined in '{}' and in '{}'", op.full_name(),
                          known->file, op.file);
      all->push_back(std::move(op));
    }
  return all;
}

frontend::ImportedModel read_onnx(const Model& model, const CompileOptions& options,
                                  const Reporter& reporter) {
  frontend::ImportOptions values;
  values.bounds = options.bounds;
  values.strict = options.strict;
  values.pad_selections = options.pad_selections;
  values.drop_unsupported_outputs = options.drop_unsupported_outputs;
  values.max_memory = memory_limit(options);
  values.custom_operators = read_operators(options.operators);
  for (const NamedTensor& constant : options.constants)
    values.input_values.insert_or_assign(constant.name, tensor_of(constant.tensor));
  auto wanted = values;
  if (!options.min_shapes.empty() || !options.max_shapes.empty() || !options.dims.empty()) {
    for (const Shapes* shapes : {&options.min_shapes, &options.max_shapes})
      for (const auto& [name, shape] : *shapes) values.input_ranks[name] = shape.size();
    // Reads the inputs first, because some models import only with the right shapes.
    const ir::Graph inputs = model.path.empty()
                                 ? frontend::import_inputs_bytes(model.bytes, model.folder, values)
                                 : frontend::import_inputs(model.path, values);
    wanted = import_options(options, inputs);
    wanted.input_values = std::move(values.input_values);
    wanted.input_ranks = std::move(values.input_ranks);
    wanted.bounds = std::move(values.bounds);
    wanted.strict = options.strict;
    wanted.pad_selections = options.pad_selections;
    wanted.drop_unsupported_outputs = options.drop_unsupported_outputs;
    wanted.max_memory = values.max_memory;
    wanted.custom_operators = values.custom_operators;
  }
  wanted.reads = std::make_shared<ir::ReadLog>();
  wanted.on_node = [&reporter](std::size_t done, std::size_t total) {
    reporter.progress("import", done, total);
  };
  if (!model.path.empty()) return frontend::import_model(model.path, wanted);
  return with_context(fmt::format("model '{}'", model.name), [&] {
    return frontend::import_model_bytes(model.bytes, model.folder, wanted);
  });
}

/// The prediction and joint networks of a transducer, whose encoder `model` is; none of others.
std::vector<Model> networks_of(const CompileOptions& options, const Model& model) {
  if (options.decoder.empty() || model.path.empty() || is_decoder(model) ||
      frontend::is_decoder_source(options.decoder))
    return {};
  const ir::Graph inputs = frontend::import_inputs(options.decoder);
  if (!is_prediction_network(inputs)) return {};
  std::vector<Model> networks(1);
  networks[0].path = options.decoder;
  if (!has_joint_network(inputs)) networks.emplace_back().path = joiner_beside(options.decoder);
  return networks;
}

}  // namespace

bool is_decoder(const Model& model) {
  return !model.path.empty() && frontend::is_decoder_source(model.path);
}

bool is_graph_text(const Model& model) {
  if (model.path.empty()) return begins_as_graph(text_of(model.bytes)).value_or(false);
  if (is_decoder(model)) return false;
  files::InputFile file = files::open_input(model.path);
  if (!file.problem.empty())
    throw file.error(model.path,
                     fmt::format("'{}' cannot be opened: {}", model.path, file.problem));
  // Leading comments may be long: reads until the kind is known.
  std::string start;
  for (std::size_t block = 4096;; block *= 2) {
    const std::size_t before = start.size();
    start.resize(before + block);
    const std::size_t read = files::read_some(
        file.descriptor, std::as_writable_bytes(std::span(start)).subspan(before), model.path);
    start.resize(before + read);
    if (const auto answer = begins_as_graph(start)) return *answer;
    if (read < block) return false;
  }
}

std::string name_of(const Model& model) {
  if (model.path.empty()) return model.name;
  const std::filesystem::path path(model.path);
  // "folder/" has no file name.
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

frontend::ImportedModel import_model(const Model& model, const CompileOptions& options,
                                     const Reporter& reporter, Bodies bodies) {
  if (model.path.empty() && model.bytes.empty())
    throw usage_error("no model: name its file or give its bytes");
  CompileOptions with_shapes = options;
  const std::vector<Model> networks = networks_of(options, model);
  if (!networks.empty())
    std::tie(with_shapes.min_shapes, with_shapes.max_shapes) =
        shapes_of_sound(frontend::import_inputs(model.path));
  const bool is_of_images = !options.features.empty() && is_pixel_config(options.features);
  if (is_of_images)
    std::tie(with_shapes.min_shapes, with_shapes.max_shapes) = shapes_of_pixels(options.features);
  else if (!options.features.empty())
    with_shapes.min_shapes = with_shapes.max_shapes = shapes_of_features(options.features);
  auto result = is_decoder(model)      ? read_decoder(model, options, reporter)
                : is_graph_text(model) ? read_graph_text(model, with_shapes)
                                       : read_onnx(model, with_shapes, reporter);
  if (result.flag && (bodies == Bodies::kOne || !options.entries.empty()))
    throw usage_error(
        "input '{0}' chooses between two bodies of the model, which make entry "
        "points of their own: say which is meant, --dim {0}=0 or --dim {0}=1",
        result.flag->input);
  // That of weights is known to be of spectra.
  if (!options.features.empty() || (!options.decoder.empty() && is_decoder(model))) {
    if (result.flag) throw usage_error("--features is of an encoder, and the model has two bodies");
    result.graph = is_of_images ? with_pixels(result.graph, options.features)
                                : with_log_mel(result.graph, options.features);
    if (!options.features.empty()) result.hash ^= plan::hash64(files::read_file(options.features));
  }
  if (!options.embeddings.empty()) {
    if (is_decoder(model))
      throw usage_error("--embeddings is of an ONNX file, and '{}' has its own", model.path);
    Model own;
    own.path = options.embeddings;
    const auto other = read_onnx(own, {}, reporter);
    result.graph = with_embeddings(result.graph, other.graph);
    if (result.flag)
      for (ir::Graph& graph : result.flag->graphs) graph = with_embeddings(graph, other.graph);
    result.hash ^= other.hash;
    result.files.insert(result.files.end(), other.files.begin(), other.files.end());
    result.reads = nullptr;  // weights of two files are not exchanged
  }
  if (!networks.empty()) {
    std::vector<ir::Graph> graphs;
    for (const Model& network : networks) {
      CompileOptions of_a_token;
      of_a_token.min_shapes = of_a_token.max_shapes =
          shapes_of_a_token(frontend::import_inputs(network.path));
      const auto other = read_onnx(network, of_a_token, reporter);
      graphs.push_back(other.graph);
      result.hash ^= other.hash;
      result.files.insert(result.files.end(), other.files.begin(), other.files.end());
    }
    result.graph = with_transducer(result.graph, graphs);
    result.reads = nullptr;  // weights of several files are not exchanged
  } else if (!options.decoder.empty() && !is_decoder(model)) {
    if (result.flag) throw usage_error("--decoder is of an encoder, and the model has two bodies");
    Model decoder;
    decoder.path = options.decoder;
    const auto other = read_onnx(decoder, {}, reporter);
    result.graph = with_cross_attention(result.graph, other);
    result.hash ^= other.hash;
    result.reads = nullptr;  // weights of two files are not exchanged
  }
  if (options.serve.paging) {
    result.graph = fusion::of_one_sequence(of_later_steps(result));
    result.flag.reset();
  }
  const auto entries = limits_of(options.entries);
  if (!entries.empty())
    result.graph = with_context("--entry", [&] {
      return fusion::narrow_dims(result.graph, hull_of(entries, result.graph));
    });
  return result;
}

const ir::Graph& of_later_steps(const frontend::ImportedModel& model) {
  return model.flag ? model.flag->graphs[1] : model.graph;
}

bool is_fused(const ir::Graph& graph) {
  return std::ranges::any_of(
      graph.nodes(), [](const ir::Node& node) { return node.op->kind == ir::OpKind::kFused; });
}

}  // namespace sinter::tools
