// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/build/cross_attention.h"

#include <algorithm>
#include <set>

#include "runtime/format_error.h"
#include "tools/compiler/build/node_copy.h"

namespace sinter::tools {
namespace {

using ir::Graph;
using ir::ValueId;

// As exports of Optimum name what a decoder reads.
constexpr std::string_view kHidden = "last_hidden_state", kHiddenInput = "encoder_hidden_states",
                           kPast = "past_key_values.", kPresent = "present.";

/// The nodes that compute a value, and the graph's inputs among what they read.
struct Sources {
  std::set<ValueId> values, inputs;
};

void collect(const Graph& graph, ValueId value, Sources& found) {
  std::vector<ValueId> next{value};
  while (!next.empty()) {
    const ValueId one = next.back();
    next.pop_back();
    if (!found.values.insert(one).second) continue;
    if (graph.input_number(one)) found.inputs.insert(one);
    if (const ir::Node* node = graph.producer(one))
      next.insert(next.end(), node->inputs.begin(), node->inputs.end());
  }
}

class Joiner {
 public:
  Joiner(const Graph& encoder, const Graph& first_step)
      : encoder_(encoder),
        step_(first_step),
        builder_(encoder.name()),
        copier_(builder_, first_step) {}

  Graph run() {
    copy_encoder();
    for (const ValueId input : step_.inputs()) feed(input);
    Sources needed;
    std::vector<std::pair<std::string, ValueId>> outputs;
    for (std::size_t i = 0; i < step_.outputs().size(); ++i) {
      const std::string& name = step_.output_names()[i];
      if (!name.starts_with(kPresent)) continue;
      const std::string past = std::string(kPast) + name.substr(kPresent.size());
      Sources own;
      collect(step_, step_.outputs()[i], own);
      const bool is_encoders =
          !own.inputs.empty() &&
          std::ranges::all_of(own.inputs, [&](ValueId input) { return copier_.is_fed(input); });
      if (!is_encoders || !has_input(past)) continue;
      collect(step_, step_.outputs()[i], needed);
      outputs.emplace_back(past, step_.outputs()[i]);
    }
    if (outputs.empty())
      throw usage_error(
          "--decoder: its first step computes no 'past_key_values.X' of the encoder's outputs "
          "alone: they belong to different models, or the decoder is not Optimum's "
          "decoder_model_merged.onnx");
    for (const ir::Node& node : step_.nodes())
      if (std::ranges::any_of(node.outputs,
                              [&](ValueId value) { return needed.values.contains(value); }))
        copier_.copy(node);
    for (const auto& [name, value] : outputs) builder_.output(name, copier_.map(value));
    return builder_.finish();
  }

 private:
  void copy_encoder() {
    for (const auto& [symbol, range] : encoder_.ranges()) builder_.range(symbol, range);
    std::vector<ValueId> inputs;
    for (const ValueId input : encoder_.inputs())
      inputs.push_back(builder_.input(encoder_.value(input).name, encoder_.type(input)));
    given_ = ir::inline_graph(builder_, encoder_, inputs);
    for (std::size_t i = 0; i < given_.size(); ++i)
      builder_.output(encoder_.output_names()[i], given_[i]);
  }

  bool has_input(const std::string& name) const {
    return std::ranges::any_of(step_.inputs(),
                               [&](ValueId input) { return step_.value(input).name == name; });
  }

  /// Puts the encoder's output in place of an input that reads it.
  void feed(ValueId input) {
    const std::string& name = step_.value(input).name;
    const auto& names = encoder_.output_names();
    auto at = std::ranges::find(names, name);
    if (at == names.end() && name == kHiddenInput) at = std::ranges::find(names, kHidden);
    if (at == names.end()) return;
    const ValueId value = given_[static_cast<std::size_t>(at - names.begin())];
    if (!copier_.feed(input, value))
      throw usage_error("--decoder: its input '{}' is {}, and the encoder's '{}' {}", name,
                        ir::to_string(step_.type(input)), *at, ir::to_string(builder_.type(value)));
  }

  const Graph &encoder_, &step_;
  ir::GraphBuilder builder_;
  NodeCopier copier_;
  std::vector<ValueId> given_;
};

}  // namespace

Graph with_cross_attention(const Graph& encoder, const frontend::ImportedModel& decoder) {
  return Joiner(encoder, decoder.flag ? decoder.flag->graphs[0] : decoder.graph).run();
}

}  // namespace sinter::tools
