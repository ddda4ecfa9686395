// SPDX-License-Identifier: Apache-2.0
#include "fusion/paging/decoder_inputs.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "fusion/narrow_dims.h"
#include "fusion/paging/paging_refused.h"
#include "fusion/patterns/caches.h"

namespace sinter::fusion {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw PagingRefused(why, false); }
[[noreturn]] void refuse_decoder(const std::string& why) { throw PagingRefused(why); }

class InputFinder {
 public:
  explicit InputFinder(const Graph& graph) : graph_(graph) {}

  std::vector<DecoderCache> caches() {
    find_caches();
    return std::move(found_.caches);
  }

  DecoderInputs find() {
    find_caches();
    find_given();
    find_ids();
    const auto classify_all = [&](bool floats) {
      for (const ValueId input : graph_.inputs())
        // A mask's size may choose a table of angles, though nobody reads the mask.
        if (is_float(graph_.type(input).dtype) == floats && input != found_.ids &&
            !is_cache(input) && !is_state(input) && !is_given(input) &&
            (graph_.is_output(input) || !graph_.users(input).empty() ||
             is_total(graph_.type(input))))
          classify(input);
    };
    classify_all(true);
    classify_all(false);
    return std::move(found_);
  }

 private:
  bool is_cache(ValueId input) const {
    return std::ranges::any_of(found_.caches,
                               [&](const DecoderCache& cache) { return cache.input == input; });
  }

  bool is_state(ValueId input) const {
    return std::ranges::any_of(found_.states,
                               [&](const DecoderState& state) { return state.input == input; });
  }

  bool is_given(ValueId input) const {
    return found_.given && (input == found_.given->vectors || input == found_.given->rows);
  }

  void find_given() {
    DecoderInputs::Given given;
    for (const ValueId input : graph_.inputs()) {
      if (graph_.value(input).name == paged_names::kGivenVectors) given.vectors = input;
      if (graph_.value(input).name == paged_names::kGivenRows) given.rows = input;
    }
    if (!given.vectors.valid() && !given.rows.valid()) return;
    if (!given.vectors.valid() || !given.rows.valid())
      refuse(fmt::format("of the inputs '{}' and '{}' there is one alone",
                         paged_names::kGivenVectors, paged_names::kGivenRows));
    const TensorType& vectors = graph_.type(given.vectors);
    if (!is_float(vectors.dtype) || vectors.shape.size() != 2 || !vectors.shape[0].as_symbol() ||
        !vectors.shape[1].is_constant() || !row_symbol(given.rows))
      refuse(
          fmt::format("'{}' is {}, '{}' {}: expected floats [given, width] and integers [1, "
                      "tokens]",
                      paged_names::kGivenVectors, to_string(vectors), paged_names::kGivenRows,
                      to_string(graph_.type(given.rows))));
    found_.given = given;
  }

  void find_caches() {
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      const int output = static_cast<int>(i);
      if (auto state = decoder_state(graph_, output))
        add(*std::move(state));
      else if (const auto window = sliding(output))
        add_sliding(*window);
      else if (const auto cache = in_place(output))
        add(*cache, DecoderInputs::Growth::kNone);
      else if (const auto padded = padded_cache(output))
        add(*padded, DecoderInputs::Growth::kPadded);
      else if (const auto grown = growing(output))
        add(*grown, DecoderInputs::Growth::kConcatenated);
    }
    if (found_.caches.empty() && found_.states.empty())
      refuse(
          "no cache was found: outputs that are an input with new rows, either put at their "
          "positions (TensorScatter) or concatenated behind it");
  }

  void require_rows(const DecoderCache& cache) const {
    const Shape& shape = graph_.type(cache.input).shape;
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (d != cache.axis && !shape[d].is_constant())
        refuse(fmt::format(
            "dimension {} of the cache '{}' is '{}': say what it is with --dim {}=..", d,
            graph_.value(cache.input).name, shape[d].to_string(), shape[d].to_string()));
  }

  void add(DecoderState state) {
    const TensorType& type = graph_.type(state.state);
    if (!std::ranges::all_of(type.shape, [](const Dim& dim) { return dim.is_constant(); }) ||
        type.shape[0] != Dim(1))
      refuse_decoder(
          fmt::format("the state '{}' is {}: its sizes must be constants, for a batch of 1",
                      graph_.value(state.input).name, to_string(type.shape)));
    found_.states.push_back(std::move(state));
  }

  void add_sliding(const DecoderCache& cache) {
    require_rows(cache);
    found_.caches.push_back(cache);
  }

  void add(const DecoderCache& cache, DecoderInputs::Growth growth) {
    const Shape& shape = graph_.type(cache.input).shape;
    const std::string& name = graph_.value(cache.input).name;
    const auto length = shape[cache.axis].as_symbol();
    if (!length)
      refuse(fmt::format("the cache '{}' is of a fixed length, {}: export it with a symbolic one",
                         name, shape[cache.axis].to_string()));
    require_rows(cache);
    const auto first =
        std::ranges::find_if(found_.caches, [](const DecoderCache& each) { return !each.kept; });
    if (first != found_.caches.end() && (growth != found_.growth || *length != found_.length))
      refuse_decoder(fmt::format(
          "the caches are of two kinds: '{}' is {}, '{}' is {}", graph_.value(first->input).name,
          to_string(graph_.type(first->input).shape), name, to_string(shape)));
    found_.growth = growth;
    found_.length = *length;
    found_.caches.push_back(cache);
  }

  /// A sliding window: some of the rows of all.
  std::optional<DecoderCache> sliding(int output) const {
    const ValueId result = graph_.outputs()[static_cast<std::size_t>(output)];
    const auto input = windowed_cache(graph_, result);
    if (!input || !graph_.input_number(*input)) return std::nullopt;
    const Node& take = *graph_.producer(result);
    const ValueId rows = take.inputs[0];
    const NodeId writer = graph_.value(rows).producer;
    const Node& both = graph_.node(writer);
    if (both.inputs.size() != 2) return std::nullopt;
    const auto axis = static_cast<std::size_t>(both.attrs.get_int("axis"));
    return DecoderCache{*input, output, rows, writer, axis, take.inputs[1 + axis]};
  }

  /// A state whose rows are replaced in place.
  std::optional<DecoderCache> in_place(int output) const {
    const auto state = std::ranges::find_if(
        graph_.states(), [&](const ir::State& each) { return each.output == output; });
    if (state == graph_.states().end()) return std::nullopt;
    const ValueId result = graph_.outputs()[static_cast<std::size_t>(output)];
    const auto history = cache_history(graph_, result);
    if (!history)
      refuse("the state '" + graph_.output_names()[static_cast<std::size_t>(output)] +
             "' is no cache");
    const Node* writer = graph_.producer(result);
    if (history->nodes.size() != 1 || writer->op->name != "Scatter")
      refuse("rows of the cache '" + graph_.value(history->input).name +
             "' are written through views");
    const auto axis = axis_of_rows(*writer);
    if (!axis)
      refuse("all rows of the cache '" + graph_.value(history->input).name +
             "' are replaced by every run");
    return DecoderCache{history->input, output, result, history->nodes[0], *axis, {}};
  }

  std::optional<std::size_t> axis_of_rows(const Node& scatter) const {
    const Shape& all = graph_.type(scatter.inputs[0]).shape;
    const Shape& rows = graph_.type(scatter.inputs[1]).shape;
    std::optional<std::size_t> axis;
    for (std::size_t d = 0; d < all.size(); ++d)
      if (all[d] != rows[d]) axis = d;
    return axis;
  }

  /// An input extended by padding, in which rows are replaced.
  std::optional<DecoderCache> padded_cache(int output) const {
    const ValueId result = graph_.outputs()[static_cast<std::size_t>(output)];
    const Node* writer = graph_.producer(result);
    if (writer == nullptr || writer->op->name != "Scatter" ||
        writer->attrs.get_string("combine") != "none")
      return std::nullopt;
    const Node* pad = graph_.producer(writer->inputs[0]);
    const auto axis = axis_of_rows(*writer);
    if (pad == nullptr || pad->op->name != "Pad" || !axis ||
        graph_.users(writer->inputs[0]).size() != 1)
      return std::nullopt;
    const ValueId input = pad->inputs[0];
    const Shape &before = graph_.type(input).shape, &behind = graph_.type(result).shape;
    const auto& begins = pad->attrs.get_dims("begins");
    for (std::size_t d = 0; d < before.size(); ++d)
      if (begins[d] != Dim(0) || (d != *axis && before[d] != behind[d])) return std::nullopt;
    if (!graph_.input_number(input) || graph_.users(input).size() != 1) return std::nullopt;
    return DecoderCache{input, output, result, graph_.value(result).producer, *axis, {}};
  }

  std::optional<DecoderCache> growing(int output) const {
    const ValueId result = graph_.outputs()[static_cast<std::size_t>(output)];
    const Node* writer = graph_.producer(result);
    if (writer == nullptr || writer->op->name != "Concat" || writer->inputs.size() != 2)
      return std::nullopt;
    const ValueId input = writer->inputs[0];
    if (!graph_.input_number(input) || graph_.users(input).size() != 1) return std::nullopt;
    return DecoderCache{input,
                        output,
                        result,
                        graph_.value(result).producer,
                        static_cast<std::size_t>(writer->attrs.get_int("axis")),
                        {}};
  }

  /// True if `value`, possibly after views and casts, selects rows of a table.
  bool chooses_rows(ValueId value) const {
    return std::ranges::any_of(graph_.users(value), [&](NodeId user) {
      const Node& node = graph_.node(user);
      if (node.op->name == "Gather" && node.inputs[1] == value)
        return graph_.type(node.outputs[0]).shape.size() >= 2 &&
               (is_float(graph_.type(node.inputs[0]).dtype) || graph_.is_constant(node.inputs[0]));
      const bool passes = node.op->kind == OpKind::kView || node.op->name == "Cast";
      return passes && chooses_rows(node.outputs[0]);
    });
  }

  /// The symbol of a shape [1, tokens] or [tokens].
  std::optional<std::string> row_symbol(ValueId input) const {
    const TensorType& type = graph_.type(input);
    const Shape& shape = type.shape;
    const bool fits =
        is_integer(type.dtype) && (shape.size() == 1 || (shape.size() == 2 && shape[0] == Dim(1)));
    return fits ? shape.back().as_symbol() : std::nullopt;
  }

  void find_ids() {
    std::vector<std::string> names;
    for (const ValueId input : graph_.inputs()) {
      names.push_back("'" + graph_.value(input).name + "' " + to_string(graph_.type(input).shape));
      const auto symbol = row_symbol(input);
      if (is_cache(input) || is_state(input) || is_given(input) || !symbol || !chooses_rows(input))
        continue;
      // Positions select rows too, of tables of positions.
      if (found_.ids.valid() && graph_.value(input).name != "input_ids") continue;
      found_.ids = input;
      found_.tokens = Dim::symbol(*symbol);
    }
    if (!found_.ids.valid())
      refuse(
          fmt::format("no input is the tokens, integers [1, sequence] by which rows of an "
                      "embedding are gathered; the inputs are {}{}",
                      fmt::join(names, ", "),
                      graph_.type(graph_.inputs()[0]).shape.empty() ? ""
                                                                    : ". A batch is 1: say "
                                                                      "so with --dim batch=1"));
  }

  void classify(ValueId input) {
    const TensorType& type = graph_.type(input);
    const auto symbol = row_symbol(input);
    if (is_cross_mask(type))
      found_.cross_masks.push_back(input);
    else if (is_integer(type.dtype) && ir::element_count(type.shape) == Dim(1))
      found_.counts.push_back(input);
    else if (symbol && Dim::symbol(*symbol) == found_.tokens)
      found_.positions.push_back(input);
    else if (symbol || is_total(type))
      found_.masks.push_back(input);
    else if (is_rotary(type))
      found_.rotary = input;
    else if (is_crossed(input))
      found_.crossed.push_back(input);
    else
      refuse_decoder(
          fmt::format("the input '{}', {}, is neither tokens, their positions, a mask of all "
                      "tokens so far, a cache nor an encoder's keys or values",
                      graph_.value(input).name, to_string(type)));
  }

  /// Whether it is the first of [axes, 1, tokens].
  bool is_rotary(const TensorType& type) const {
    const Shape& shape = type.shape;
    return !found_.rotary && is_integer(type.dtype) && shape.size() == 3 &&
           shape[0].is_constant() && shape[1] == Dim(1) && shape[2] == found_.tokens;
  }

  /// Constant sizes but for the last one but one, the same of all; read as keys or values.
  bool is_crossed(ValueId input) const {
    const TensorType& type = graph_.type(input);
    if (!is_float(type.dtype) || type.shape.size() < 3) return false;
    const std::size_t axis = type.shape.size() - 2;
    for (std::size_t d = 0; d < type.shape.size(); ++d)
      if (d != axis && !type.shape[d].is_constant()) return false;
    if (!found_.crossed.empty()) {
      const Shape& first = graph_.type(found_.crossed[0]).shape;
      if (first[first.size() - 2] != type.shape[axis]) return false;
    }
    return std::ranges::all_of(graph_.users(input), [&](NodeId user) {
      const Node& node = graph_.node(user);
      return node.op->name == "Attention" && node.inputs[0] != input &&
             (node.inputs[1] == input || node.inputs[2] == input);
    });
  }

  /// True for shape [1, an encoder's positions].
  bool is_cross_mask(const TensorType& type) const {
    if (found_.crossed.empty() || !is_integer(type.dtype) || type.shape.empty()) return false;
    const Shape& crossed = graph_.type(found_.crossed[0]).shape;
    return !type.shape.back().is_constant() && type.shape.back() == crossed[crossed.size() - 2] &&
           ir::element_count(type.shape) == type.shape.back();
  }

  /// True for shape [1, tokens before + tokens].
  bool is_total(const TensorType& type) const {
    return is_integer(type.dtype) && !type.shape.empty() && !type.shape.back().is_constant() &&
           ir::element_count(type.shape) == type.shape.back();
  }

  const Graph& graph_;
  DecoderInputs found_;
};

}  // namespace

Graph of_one_sequence(const Graph& graph) {
  std::map<std::string, Range> batch;
  for (const ValueId input : graph.inputs()) {
    const TensorType& type = graph.type(input);
    if (!is_integer(type.dtype) || type.shape.size() != 2) continue;
    const auto symbol = type.shape[0].as_symbol();
    const auto range = symbol ? graph.ranges().find(*symbol) : graph.ranges().end();
    if (range != graph.ranges().end() && range->second.min <= 1) batch[*symbol] = {1, 1, nullptr};
  }
  return batch.empty() ? graph : narrow_dims(graph, batch);
}

bool may_be_decoder(const Graph& graph) {
  const auto is_carried = [&](ValueId input) {
    const auto& [dtype, shape] = graph.type(input);
    return shape.size() >= 3 && std::ranges::any_of(graph.outputs(), [&](ValueId output) {
             const TensorType& type = graph.type(output);
             if (type.dtype != dtype || type.shape.size() != shape.size()) return false;
             int others = 0;
             for (std::size_t d = 0; d < shape.size(); ++d) others += shape[d] != type.shape[d];
             return others <= 1;
           });
  };
  return std::ranges::any_of(graph.inputs(), is_carried) &&
         std::ranges::any_of(graph.inputs(), [&](ValueId input) {
           return is_integer(graph.type(input).dtype) && graph.type(input).shape.size() <= 2;
         });
}

std::vector<DecoderCache> decoder_caches(const Graph& graph) try {
  return InputFinder(graph).caches();
} catch (const PagingRefused&) {
  return {};
}

DecoderInputs decoder_inputs(const Graph& graph) { return InputFinder(graph).find(); }

}  // namespace sinter::fusion
