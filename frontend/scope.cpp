// SPDX-License-Identifier: Apache-2.0
#include "frontend/scope.h"

#include <algorithm>

#include <onnx.pb.h>

#include "frontend/custom/import_custom.h"
#include "frontend/model/attributes.h"
#include "frontend/model/initializers.h"
#include "frontend/model/model_file.h"
#include "frontend/ops/table/input_names.h"
#include "frontend/ops/table/op_table.h"
#include "ir/dim/dim_mismatch.h"
#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

// Maximum nesting of functions and graphs. Protobuf itself reads up to 100 levels of graphs.
constexpr std::size_t kMaxCallDepth = 64;

}  // namespace

ImportState::ImportState(ir::GraphBuilder& graph_builder, const std::filesystem::path& folder_path,
                         const onnx::ModelProto& model)
    : builder(graph_builder),
      default_ranges(builder),
      folder(builder, default_ranges),
      data_sizes(builder, folder),
      external(folder_path),
      texts(model),
      functions(model),
      nodes_left_(kMaxAddedNodes + model.graph().node_size()) {}

void ImportState::warn(const std::string& text) {
  // Drops duplicates: the copies of a loop's body would repeat a warning.
  if (warned_.insert(text).second) warnings.push_back(text);
}

void ImportState::assume(const std::string& text) {
  if (strict) throw invalid_model_error("{} (--strict makes that an error)", text);
  warn(text);
}

void ImportState::note_node(std::string label, const std::string& op) {
  if (on_node) on_node(nodes.size());
  nodes.push_back({std::move(label), op});
  if (--nodes_left_ >= 0) return;
  throw unsupported_error(
      "unrolling its loops and inlining its functions adds more than {} nodes "
      "to the model: make the loops shorter, or export without them",
      kMaxAddedNodes);
}

void Scope::import_nodes(const Body& body) {
  const GraphStructure structure = check_structure(body);
  if (!structure.was_sorted)
    state_.assume(
        "the nodes are not in topological order, which ONNX requires; they have been sorted");
  for (const int index : structure.order) {
    const onnx::NodeProto& node = *body.nodes[static_cast<std::size_t>(index)];
    const std::string label = place_.prefix + node_label(node, index);
    state_.note_node(label, node.op_type());
    const ir::ReadScope scope("the import of node '" + label + "'");
    import_node(node, label, structure);
  }
}

void Scope::import_node(const onnx::NodeProto& node, const std::string& label,
                        const GraphStructure& structure) {
  const auto* function = state_.functions.find(node);
  const std::string domain = plain_domain(node.domain());
  const std::int64_t version = version_of(domain);
  const OpRow* row = find_op_row(domain, node.op_type(), version);
  const bool is_newer = row != nullptr && version > holds_until(*row);
  const std::int64_t until = is_newer ? holds_until(*row) : 0;
  if (is_newer) row = nullptr;
  // Precedence: the user's custom operators, then the model's functions, except for ONNX's own
  // operators.
  const CustomOperator* custom = find_custom(node);
  if (row != nullptr && domain.empty()) function = nullptr;
  if (custom != nullptr) row = nullptr, function = nullptr;
  const bool is_known = row != nullptr || function != nullptr || custom != nullptr;
  bool inputs_known = true;
  std::vector<ir::ValueId> inputs;
  std::vector<bool> four_bits;
  for (const std::string& name : node.input()) {
    const bool left_out = name.empty() || is_absent(name);
    inputs.push_back(left_out ? ir::ValueId{} : find_value(name));
    four_bits.push_back(false);
    if (left_out) continue;
    const auto type = unreadable_type(name);
    if (inputs.back().valid() &&
        (!type || (row != nullptr && row->four_bits != FourBits::kRefuses))) {
      four_bits.back() = type.has_value();
      continue;
    }
    inputs_known = false;
    // Reports the type, unless the value comes from a node that is already refused.
    if (type && is_known)
      note_unsupported(node, label,
                       fmt::format("input '{}' has element type {}", name, onnx_type_name(*type)));
  }
  if (!is_known) {
    const bool has_rows = is_known_op(domain, node.op_type());
    note_unsupported(
        node, label,
        is_newer ? fmt::format("the operator is known up to opset {} of {}, not as opset {} has it",
                               until, domain.empty() ? "ai.onnx" : domain, version)
        : has_rows ? fmt::format("the operator does not exist in opset {}", version)
                   : "the operator is not known",
        has_rows ? "" : hint(domain, node.op_type()));
    return;
  }
  if (!inputs_known) {
    if (row != nullptr) need_sizes(*row, version, inputs);
    return;
  }
  if (function != nullptr) return call_function(*function, node, label, inputs, structure);

  std::vector<TextPtr> texts;
  for (const std::string& name : node.input())
    texts.push_back(name.empty() || is_absent(name) ? nullptr : text_of(name));

  std::vector<bool> used;
  for (const std::string& name : node.output())
    used.push_back(!name.empty() && structure.used.count(name) != 0);
  try {
    const ir::GraphBuilder::OriginScope scope(state_.builder, {label});
    const DefaultRanges::AtNode at_node(state_.default_ranges, label);
    std::map<std::string, std::string, std::less<>> ignored;
    if (row != nullptr) {
      ignored = state_.row_checks.check(node, *row, version);
      state_.row_checks.check_float8(*row, version, state_.builder, inputs);
      state_.row_checks.unify_types(
          *row, version, state_.builder, inputs,
          [&](const std::string& what) { state_.assume(fmt::format("{}: {}", label, what)); });
    }
    const TextPtr moved = row != nullptr ? moved_text(*row, texts, node) : nullptr;
    const auto import_now = [&] {
      NodeContext context(
          node,
          {state_.builder, state_.folder, state_.external, *this, place_.owner, version_of(""),
           label, state_.default_ranges, state_.warnings, state_.pad_selections, four_bits,
           &state_.data_sizes, &state_.memory_left, state_.strict, texts, &state_.texts, ignored},
          inputs, used);
      for (std::size_t i = 0; moved && i < context.output_count(); ++i) context.give_text(i, moved);
      import_row(node, context, row, custom, label);
    };
    with_sizes_fitted(label, inputs, import_now);
  } catch (Error& error) {
    // Not for sizes that may be assumed equal (see assumptions.h), nor for bodies that can be
    // imported one by one.
    if (error.code() == ErrorCode::kUnsupported &&
        dynamic_cast<const ir::DimMismatch*>(&error) == nullptr &&
        dynamic_cast<const FlagNeeded*>(&error) == nullptr) {
      note_unsupported(node, label, error.what(), advice_of(domain, node.op_type()));
      return;
    }
    if (error.code() == ErrorCode::kCancelled) throw;
    error.set_node(describe_node(node, label));
    error.add_context(fmt::format("importing node '{}' ({}-{})", label, node.op_type(), version));
    throw;
  }
}

const CustomOperator* Scope::find_custom(const onnx::NodeProto& node) const {
  if (state_.custom_operators == nullptr || is_onnx_domain(node.domain())) return nullptr;
  const auto& all = *state_.custom_operators;
  const auto found = std::ranges::find_if(all, [&](const CustomOperator& op) {
    return op.name == node.op_type() && op.domain == node.domain();
  });
  return found == all.end() ? nullptr : &*found;
}

void Scope::import_row(const onnx::NodeProto& node, NodeContext& context, const OpRow* row,
                       const CustomOperator* custom, const std::string& label) {
  if (row != nullptr) {
    row->import(context);
    if (row->four_bits == FourBits::kKeeps && context.is_four_bit(0)) context.give_four_bits();
    if (!context.is_refused()) set_outputs(node, context);
    return;
  }
  std::vector<KnownAttribute> known;
  for (const auto& attribute : custom->attributes) known.push_back({attribute.name, ""});
  check_attributes(node, known);
  const std::size_t refused = state_.unsupported.size();
  import_custom(context, *custom, [&](const std::string& path, std::span<const ir::ValueId> in) {
    return import_reference(path, in, label);
  });
  // Unsupported nodes of the reference have been listed.
  if (state_.unsupported.size() == refused) set_outputs(node, context);
}

std::optional<std::vector<ir::ValueId>> Scope::import_reference(const std::string& path,
                                                                std::span<const ir::ValueId> inputs,
                                                                const std::string& label) {
  constexpr std::size_t kMostReferences = 64;
  return with_context(fmt::format("reference '{}'", path), [&] {
    if (++state_.references > kMostReferences)
      throw usage_error("references of operators name each other more than {} deep",
                        kMostReferences);
    const auto file = MappedFile::open(path);
    auto model = parse_model({file->bytes(), file.get()}, path);
    const onnx::GraphProto& graph = model->graph();
    // The reference's weights are beside its own file.
    struct Swapped {
      ExternalData &external, &own;
      Swapped(ExternalData& a, ExternalData& b) : external(a), own(b) { std::swap(external, own); }
      ~Swapped() { std::swap(external, own); }
    };
    const auto folder = std::filesystem::path(path).parent_path();
    ExternalData own(folder.empty() ? "." : folder);
    const Swapped swapped(state_.external, own);
    std::vector<const onnx::ValueInfoProto*> named;
    Scope inner(state_, {model, checked_opsets(*model), label + "/", nullptr});
    inner.read_initializers(graph);
    for (const auto& input : graph.input())
      if (!inner.initializer_names().contains(input.name())) named.push_back(&input);
    if (named.size() != inputs.size())
      throw usage_error("it has {} inputs, and the operator has {}", named.size(), inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) inner.define(named[i]->name(), inputs[i]);
    inner.note_declared_types(graph);
    const std::size_t refused = state_.unsupported.size();
    inner.import_nodes(body_of(graph, Body::Kind::kModel));
    --state_.references;
    std::optional<std::vector<ir::ValueId>> outputs;
    if (state_.unsupported.size() > refused) return outputs;
    outputs.emplace();
    for (const auto& output : graph.output()) outputs->push_back(inner.find_value(output.name()));
    return outputs;
  });
}

void Scope::with_sizes_fitted(const std::string& label, std::vector<ir::ValueId>& inputs,
                              const std::function<void()>& import_row) {
  constexpr int kMost = 16;
  for (int fitted = 0;; ++fitted) try {
      return import_row();
    } catch (const ir::DimMismatch& mismatch) {
      // An inner node has already tried.
      const bool is_own = mismatch.node().name.empty();
      if (!is_own || fitted == kMost || !state_.data_sizes.fit(inputs, mismatch.a(), mismatch.b()))
        throw;
      state_.warn(fmt::format("{}: sizes that only the run knows, {} and {}, are taken as equal",
                              label, mismatch.a().to_string(), mismatch.b().to_string()));
    }
}

void Scope::need_sizes(const OpRow& row, std::int64_t version,
                       std::span<const ir::ValueId> inputs) {
  // Schema names of inputs that determine output shapes.
  static constexpr std::string_view kSizes[] = {
      "shape",  "axes", "repeats", "pads",  "starts", "ends",  "steps", "sizes",
      "scales", "K",    "split",   "limit", "start",  "delta", "depth", "output_shape"};
  const InputNames* names = find_input_names(row.domain, row.name, version);
  if (names == nullptr) return;
  const std::vector<OpInput> known = inputs_of(*names);
  for (std::size_t i = 0; i < std::min(inputs.size(), known.size()); ++i) {
    const bool is_size =
        std::find(std::begin(kSizes), std::end(kSizes), known[i].name) != std::end(kSizes);
    if (is_size && inputs[i].valid() && !state_.folder.contents(inputs[i]) &&
        !state_.folder.constant(inputs[i]))
      state_.folder.need(inputs[i]);
  }
}

void Scope::call_function(const onnx::FunctionProto& function, const onnx::NodeProto& node,
                          const std::string& label, std::span<const ir::ValueId> inputs,
                          const GraphStructure& structure) {
  with_context(
      fmt::format("node '{}' calls function '{}' of '{}'", label, function.name(),
                  function.domain()),
      [&] {
        auto& active = state_.active_functions;
        if (std::ranges::find(active, &function) != active.end())
          throw invalid_model_error("the function calls itself");
        if (active.size() >= kMaxCallDepth)
          throw unsupported_error("functions call each other more than {} deep", kMaxCallDepth);
        if (static_cast<int>(inputs.size()) > function.input_size() ||
            node.output_size() > function.output_size())
          throw invalid_model_error("it has {} inputs and {} outputs, but the node has {} and {}",
                                    function.input_size(), function.output_size(), inputs.size(),
                                    node.output_size());
        check_attributes(node, declared_attributes(function));
        const auto bound = bind_attributes(function, node);
        Scope inner(state_, {bound, checked_opsets(function, place_.opsets), label + "/", nullptr});
        for (int i = 0; i < function.input_size(); ++i) {
          const auto at = static_cast<std::size_t>(i);
          if (at < inputs.size() && inputs[at].valid())
            inner.define(function.input(i), inputs[at], text_of(node.input(i)));
          else
            inner.leave_out(function.input(i));
        }
        Body body = body_of(*bound);
        body.outputs.clear();
        for (int i = 0; i < node.output_size(); ++i)
          if (structure.used.count(node.output(i)) != 0) body.outputs.push_back(function.output(i));
        if (body.outputs.empty()) return;
        active.push_back(&function);
        inner.import_nodes(body);
        active.pop_back();
        for (int i = 0; i < node.output_size(); ++i) {
          if (structure.used.count(node.output(i)) == 0) continue;
          const ir::ValueId value = inner.find_value(function.output(i));
          if (!value.valid()) continue;
          set_output(node.output(i), value);
          if (auto text = inner.text_of(function.output(i))) texts_[node.output(i)] = text;
        }
      });
}

std::optional<std::vector<ir::ValueId>> Scope::import_subgraph(const onnx::GraphProto& graph,
                                                               std::span<const ir::ValueId> inputs,
                                                               const std::string& label,
                                                               bool tentative, Texts& texts) {
  const std::size_t refused = state_.unsupported.size();
  const auto forget = [&] {
    state_.unsupported.erase(state_.unsupported.begin() + static_cast<std::ptrdiff_t>(refused),
                             state_.unsupported.end());
  };
  if (tentative) try {
      auto outputs = import_subgraph(graph, inputs, label, false, texts);
      forget();
      return outputs;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported && error.code() != ErrorCode::kInvalidModel)
        throw;
      forget();
      return std::nullopt;
    }
  Scope inner(state_, {place_.owner, place_.opsets, label + "/", this});
  inner.note_declared_types(graph);
  inner.read_initializers(graph);
  for (int i = 0; i < graph.input_size(); ++i)
    inner.define(graph.input(i).name(), inputs[static_cast<std::size_t>(i)],
                 static_cast<std::size_t>(i) < texts.inputs.size()
                     ? texts.inputs[static_cast<std::size_t>(i)]
                     : nullptr);
  inner.import_nodes(body_of(graph, Body::Kind::kSubgraph));
  std::vector<ir::ValueId> outputs;
  for (const auto& output : graph.output()) {
    outputs.push_back(inner.find_value(output.name()));
    texts.outputs.push_back(inner.text_of(output.name()));
    if (outputs.back().valid() && !inner.unreadable_type(output.name())) continue;
    if (state_.unsupported.size() > refused) return std::nullopt;
    if (const auto type = inner.unreadable_type(output.name()))
      throw unsupported_error("output '{}' is a constant of element type {}", output.name(),
                              onnx_type_name(*type));
    return std::nullopt;  // it depends on an outer node that is refused
  }
  if (state_.unsupported.size() > refused) return std::nullopt;
  return outputs;
}

void Scope::set_outputs(const onnx::NodeProto& node, NodeContext& context) {
  for (std::size_t i = 0; i < context.output_count(); ++i) {
    if (!context.output_is_used(i)) continue;
    const std::string& name = node.output(static_cast<int>(i));
    const ir::ValueId value = context.outputs()[i];
    if (!value.valid()) throw unsupported_error("its output {} ('{}') is not supported", i, name);
    for (const ir::Dim& dim : state_.builder.type(value).shape) context.at_least(dim, 0);
    set_output(name, state_.data_sizes.with_short_sizes(state_.folder.simplified(value),
                                                        place_.prefix + name));
    if (const auto text = context.given_texts().find(i); text != context.given_texts().end())
      texts_[name] = text->second;
    if (i == 0 && context.gives_four_bits())
      unreadable_.emplace(name, state_.builder.type(value).dtype == DType::kInt8 ? kInt4 : kUInt4);
  }
}

void Scope::set_output(const std::string& name, ir::ValueId value) {
  state_.builder.name(value, place_.prefix + name);
  values_.emplace(name, value);
  state_.data_sizes.note_value(value, place_.prefix + name);
}

}  // namespace sinter::frontend
