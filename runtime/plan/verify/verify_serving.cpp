// SPDX-License-Identifier: Apache-2.0
// Verifies what the engine's executor assumes about a paged plan.
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <span>
#include <string_view>

#include "runtime/plan/serving.h"
#include "runtime/plan/verify/checker.h"

namespace sinter::plan {
namespace {

namespace names = serving_names;

/// Sizes that bindings share. Those up to kStores are symbols, or 1; later ones are constants.
enum class Size : std::uint8_t {
  kTokens,
  kSequences,
  kTableBlocks,
  kSamples,
  kSetRows,
  kBiases,
  kCrossBlocks,
  kStores,
  kVocabulary,
  kLikeliest,
  // Derived from other sizes, or fixed.
  kSequencesAndOne,
  kLikeliestAndOne,
  kSetWords,
  kReals,
  kIntegers,
};

struct Row {
  const char* name;
  DType dtype;
  std::size_t ServingPlan::*at;
  std::array<Size, 2> shape;
  std::size_t rank = 2;
};

// Each size occurs here before sizes derived from it.
constexpr std::array kInputs = {
    Row{names::kIds, DType::kInt32, &ServingPlan::ids, {Size::kTokens}, 1},
    Row{names::kPositions, DType::kInt32, &ServingPlan::positions, {Size::kTokens}, 1},
    Row{names::kSlotMapping, DType::kInt32, &ServingPlan::slots, {Size::kTokens}, 1},
    Row{names::kBlockTables,
        DType::kInt32,
        &ServingPlan::tables,
        {Size::kSequences, Size::kTableBlocks}},
    Row{names::kSequenceStarts, DType::kInt32, &ServingPlan::starts, {Size::kSequencesAndOne}, 1},
    Row{names::kSampleRows, DType::kInt32, &ServingPlan::rows, {Size::kSamples}, 1},
    Row{names::kSamplingReals,
        DType::kFloat64,
        &ServingPlan::reals,
        {Size::kSamples, Size::kReals}},
    Row{names::kSamplingIntegers,
        DType::kInt64,
        &ServingPlan::integers,
        {Size::kSamples, Size::kIntegers}},
    Row{names::kTokenSets, DType::kInt32, &ServingPlan::sets, {Size::kSetRows, Size::kSetWords}},
    Row{names::kBiasedTokens, DType::kInt32, &ServingPlan::biased, {Size::kBiases}, 1},
    Row{names::kTokenBiases, DType::kFloat32, &ServingPlan::biases, {Size::kBiases}, 1},
};
constexpr std::array kOutputs = {
    Row{names::kSampledTokens, DType::kInt32, &ServingPlan::drawn, {Size::kSamples}, 1},
};
/// A plan has all outputs of log probabilities or none.
constexpr Size kWanted = Size::kSamples;
constexpr std::array kLikeliestShape = {Size::kSamples, Size::kLikeliest};
constexpr std::array kToldShape = {Size::kSamples, Size::kLikeliestAndOne};
constexpr Size kPerToken = Size::kTokens, kPerStore = Size::kStores;
constexpr std::array kCrossTables = {Size::kSequences, Size::kCrossBlocks};
constexpr std::array kLogitsShape = {Size::kSamples, Size::kVocabulary};

// Limits of --serve (tools/compiler/options/paging.cpp), and of vocabularies.
constexpr std::int64_t kMostTokens = 65536, kMostSequences = 4096, kMostBlock = 256,
                       kMostPositions = 1 << 20, kMostVocabulary = 1 << 24, kMostLikeliest = 1024;
// Limits for the elements of all block tables, the bits of all sets, and the cache bytes per
// position.
constexpr std::int64_t kMostTable = std::int64_t{1} << 28, kMostSetBits = std::int64_t{1} << 34,
                       kMostPositionBytes = std::int64_t{1} << 32;

/// A size in the plan.
struct Bound {
  bool is_symbol = false;
  std::int64_t number = 0;  // index of the symbol, or the constant
  bool operator==(const Bound&) const = default;
};

using Bindings = std::vector<std::unique_ptr<fb::BindingT>>;

std::optional<std::size_t> find(const Bindings& bindings, std::string_view name) {
  const auto at = std::ranges::find(bindings, name, [](const auto& each) { return each->name; });
  if (at == bindings.end()) return std::nullopt;
  return static_cast<std::size_t>(at - bindings.begin());
}

std::string_view serve_option(const fb::PlanT& plan) {
  if (plan.manifest)
    for (const auto& option : plan.manifest->options)
      if (option->key == "serve") return option->value;
  return {};
}

/// The value of "NAME=N" in the option's text; 0 if absent.
std::int64_t said(std::string_view text, std::string_view name) {
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::string_view part = text.substr(start, end - start);
    start = end + 1;
    if (!part.starts_with(name) || part.substr(name.size()).substr(0, 1) != "=") continue;
    std::int64_t number = 0;
    std::from_chars(part.data() + name.size() + 1, part.data() + part.size(), number);
    return number;
  }
  return 0;
}

class ServingChecker {
 public:
  explicit ServingChecker(const fb::PlanT& plan) : check_(plan), plan_(plan) {}

  ServingPlan run() {
    check_logits();
    for (const Row& row : kInputs)
      found_.*row.at = check_binding(plan_.inputs, "input", row.name, row.dtype,
                                     std::span(row.shape).first(row.rank));
    for (const Row& row : kOutputs)
      found_.*row.at = check_binding(plan_.outputs, "output", row.name, row.dtype,
                                     std::span(row.shape).first(row.rank));
    check_logprobs();
    if (find(plan_.inputs, names::kTextLengths))
      found_.lengths = check_binding(plan_.inputs, "input", names::kTextLengths, DType::kInt32,
                                     std::span(&kPerToken, 1));
    check_given();
    check_experts();
    check_crossed();
    check_states();
    check_caches();
    check_.where.clear();
    check_sizes();
    check_blocks();
    check_others();
    return found_;
  }

 private:
  Bound bound(std::uint32_t expression) const {
    const fb::ExprNode& node = plan_.expressions[expression];
    if (node.op() == fb::ExprOp::Constant) return {false, node.value()};
    if (node.op() != fb::ExprOp::Symbol)
      check_.fail("its shape has an expression where the engine gives sizes of its own");
    const fb::SymbolT& symbol = *plan_.symbols[node.a()];
    if (symbol.value_of != -1 || symbol.extent_of != -1 || symbol.tokens_of != -1)
      check_.fail("its size '{}' depends on data", symbol.name);
    return {true, node.a()};
  }

  std::int64_t most(const Bound& size) const {
    return size.is_symbol ? plan_.symbols[static_cast<std::size_t>(size.number)]->max : size.number;
  }
  std::int64_t most(Size size) const { return most(*sizes_[static_cast<std::size_t>(size)]); }

  void require(bool holds, std::size_t d, std::string_view what) const {
    if (!holds) check_.fail("its dimension {} is not {}", d, what);
  }

  /// Whether an expression is `size` (a symbol or a constant) plus 1.
  bool is_one_more(std::uint32_t expression, const Bound& size) const {
    const fb::ExprNode& node = plan_.expressions[expression];
    if (!size.is_symbol)
      return node.op() == fb::ExprOp::Constant && node.value() > 0 &&
             node.value() - 1 == size.number;
    if (node.op() != fb::ExprOp::Add) return false;
    const auto is = [&](std::uint32_t operand, bool symbol) {
      const fb::ExprNode& part = plan_.expressions[operand];
      return symbol ? part.op() == fb::ExprOp::Symbol && part.a() == size.number
                    : part.op() == fb::ExprOp::Constant && part.value() == 1;
    };
    return (is(node.a(), true) && is(node.b(), false)) ||
           (is(node.a(), false) && is(node.b(), true));
  }

  /// Number of 32-bit words for `bits` bits.
  static std::int64_t words_of(std::int64_t bits) { return bits / 32 + (bits % 32 != 0 ? 1 : 0); }

  bool is_constant(std::uint32_t expression, std::int64_t value) const {
    const fb::ExprNode& node = plan_.expressions[expression];
    return node.op() == fb::ExprOp::Constant && node.value() == value;
  }

  void check_dimension(std::uint32_t expression, std::size_t d, Size size) {
    const auto own = [&](Size of) { return *sizes_[static_cast<std::size_t>(of)]; };
    switch (size) {
      case Size::kSequencesAndOne:
        return require(is_one_more(expression, own(Size::kSequences)), d,
                       "the number of sequences and one");
      case Size::kLikeliestAndOne:
        return require(is_one_more(expression, own(Size::kLikeliest)), d,
                       "the number of the likeliest tokens and one");
      case Size::kSetWords:
        return require(is_constant(expression, words_of(own(Size::kVocabulary).number)), d,
                       "a bit for each token");
      case Size::kReals: return require(is_constant(expression, kSamplingReals), d, "4");
      case Size::kIntegers: return require(is_constant(expression, kSamplingIntegers), d, "6");
      default: break;
    }
    auto& known = sizes_[static_cast<std::size_t>(size)];
    const Bound found = bound(expression);
    if (known) {
      require(*known == found, d, "that of the binding which shares it");
      return;
    }
    const bool is_fixed = size == Size::kVocabulary || size == Size::kLikeliest;
    if (is_fixed) require(!found.is_symbol, d, "a constant");
    require(found.is_symbol || found.number >= 1, d, "above 0");
    // The smallest step has one of each. Tables always have their full length.
    const bool is_counted = size == Size::kTokens || size == Size::kSequences ||
                            size == Size::kSamples || size == Size::kStores;
    if (is_counted)
      require(found.is_symbol ? plan_.symbols[static_cast<std::size_t>(found.number)]->min <= 1 &&
                                    plan_.symbols[static_cast<std::size_t>(found.number)]->max >= 1
                              : found.number == 1,
              d, "from 1 on");
    known = found;
  }

  void check_shape(const fb::BindingT& binding, std::span<const Size> shape) {
    if (binding.shape.size() != shape.size())
      check_.fail("it has {} dimensions, not {}", binding.shape.size(), shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d) check_dimension(binding.shape[d], d, shape[d]);
  }

  std::size_t check_binding(const Bindings& bindings, const char* what, const char* name,
                            DType dtype, std::span<const Size> shape) {
    check_.where = fmt::format("{} '{}'", what, name);
    const auto at = find(bindings, name);
    if (!at) check_.fail("the plan has none, which plans of compile --serve have");
    const fb::BindingT& binding = *bindings[*at];
    const auto type = static_cast<DType>(binding.dtype);
    if (type != dtype) check_.fail("it is of type {}, not {}", to_string(type), to_string(dtype));
    if (is_state(binding)) check_.fail("it is a state");
    check_shape(binding, shape);
    return *at;
  }

  bool is_state(const fb::BindingT& binding) const {
    return plan_.buffers[binding.buffer]->kind == fb::BufferKind::State;
  }

  /// Finds the logits: the output of that name, or the first of floats whose name is not in the
  /// table. Others may be in front of it, such as hidden states.
  void check_logits() {
    const auto is_candidate = [&](const auto& output) {
      return !is_state(*output) && is_float(static_cast<DType>(output->dtype)) &&
             output->name != names::kTokenLogprobs;
    };
    auto at = std::ranges::find_if(plan_.outputs, [&](const auto& output) {
      return output->name == names::kLogits && is_candidate(output) && !output->shape.empty() &&
             !bound(output->shape.back()).is_symbol;
    });
    if (at == plan_.outputs.end()) at = std::ranges::find_if(plan_.outputs, is_candidate);
    if (at == plan_.outputs.end()) check_.fail("it has no logits [samples, vocabulary]");
    check_.where = fmt::format("output '{}'", (*at)->name);
    check_shape(**at, kLogitsShape);
    found_.logits = static_cast<std::size_t>(at - plan_.outputs.begin());
  }

  void check_logprobs() {
    const bool has_all = find(plan_.inputs, names::kLogprobsWanted).has_value();
    if (!has_all) return;
    ServingPlan::Logprobs told;
    told.wanted = check_binding(plan_.inputs, "input", names::kLogprobsWanted, DType::kInt32,
                                std::span(&kWanted, 1));
    told.likeliest = check_binding(plan_.outputs, "output", names::kLikeliestTokens, DType::kInt32,
                                   kLikeliestShape);
    told.told =
        check_binding(plan_.outputs, "output", names::kTokenLogprobs, DType::kFloat32, kToldShape);
    check_most(Size::kLikeliest, kMostLikeliest, "likeliest tokens");
    told.most = static_cast<int>(most(Size::kLikeliest));
    found_.logprobs = told;
  }

  void check_experts() {
    const auto at = find(plan_.outputs, names::kExpertOffsets);
    if (!at) return;
    check_.where = fmt::format("output '{}'", names::kExpertOffsets);
    const fb::BindingT& binding = *plan_.outputs[*at];
    const auto type = static_cast<DType>(binding.dtype);
    if (type != DType::kInt32) check_.fail("it is of type {}, not i32", to_string(type));
    if (is_state(binding)) check_.fail("it is a state");
    if (binding.shape.size() != 2) check_.fail("it has {} dimensions, not 2", binding.shape.size());
    std::array<std::int64_t, 2> shape{};
    constexpr std::int64_t kMost = 1 << 16;
    for (std::size_t d = 0; d < 2; ++d) {
      const Bound size = bound(binding.shape[d]);
      require(!size.is_symbol && size.number > static_cast<std::int64_t>(d) && size.number <= kMost,
              d, "a number of mixtures, or of experts and one");
      shape[d] = size.number;
    }
    found_.experts = ServingPlan::Experts{*at, shape[0], shape[1] - 1};
  }

  /// Bytes per position of `input` [.., positions, columns]; only the number of positions is
  /// symbolic.
  std::int64_t check_positions(const fb::BindingT& input, std::optional<Bound>& positions) const {
    if (input.shape.size() < 2)
      check_.fail("it has {} dimensions, none of positions", input.shape.size());
    std::int64_t bytes = static_cast<std::int64_t>(size_of(static_cast<DType>(input.dtype)));
    for (std::size_t d = 0; d < input.shape.size(); ++d) {
      const Bound size = bound(input.shape[d]);
      if (d + 2 == input.shape.size()) {
        require(size.is_symbol, d, "a number of positions that is open");
        if (positions) require(*positions == size, d, "that of the other caches");
        positions = size;
        continue;
      }
      require(!size.is_symbol && size.number >= 1 && size.number <= kMostPositionBytes, d,
              "a constant above 0");
      if (size.number > kMostPositionBytes / bytes) check_.fail("a position of it is too large");
      bytes *= size.number;
    }
    return bytes;
  }

  /// Vectors in place of embeddings, and positions of several axes.
  void check_given() {
    if (const auto at = find(plan_.inputs, names::kGivenVectors)) {
      const fb::BindingT& vectors = *plan_.inputs[*at];
      check_.where = fmt::format("input '{}'", vectors.name);
      ServingPlan::Given given;
      given.vectors = *at;
      given.type = static_cast<DType>(vectors.dtype);
      if (!is_arithmetic_float(given.type) || vectors.shape.size() != 2)
        check_.fail("it is no matrix of floats");
      const Bound count = bound(vectors.shape[0]), width = bound(vectors.shape[1]);
      require(count.is_symbol && plan_.symbols[static_cast<std::size_t>(count.number)]->min <= 1, 0,
              "from 1 on");
      require(!width.is_symbol && width.number >= 1 && width.number <= kMostVocabulary, 1,
              "a constant");
      given.most = most(count);
      given.width = width.number;
      if (given.most < most(Size::kTokens)) check_.fail("a step has more tokens");
      given.rows = check_binding(plan_.inputs, "input", names::kGivenRows, DType::kInt32,
                                 std::span(&kPerToken, 1));
      found_.given = given;
    }
    if (const auto at = find(plan_.inputs, names::kRotaryPositions)) {
      const fb::BindingT& positions = *plan_.inputs[*at];
      check_.where = fmt::format("input '{}'", positions.name);
      constexpr std::int64_t kMostAxes = 16;
      if (static_cast<DType>(positions.dtype) != DType::kInt32 || positions.shape.size() != 2)
        check_.fail("it is no matrix of i32");
      const Bound axes = bound(positions.shape[0]);
      require(!axes.is_symbol && axes.number >= 1 && axes.number <= kMostAxes, 0, "1 to 16");
      check_dimension(positions.shape[1], 1, Size::kTokens);
      found_.rotary = {*at, static_cast<int>(axes.number)};
    }
  }

  bool is_crossed(const fb::BindingT& input) const {
    return !is_state(input) && is_float(static_cast<DType>(input.dtype)) &&
           input.name != names::kGivenVectors &&
           std::ranges::none_of(kInputs, [&](const Row& row) { return input.name == row.name; });
  }

  /// The inputs of cross-attention: all of them or none.
  void check_crossed() {
    if (!find(plan_.inputs, names::kCrossTables)) return;
    ServingPlan::Crossed crossed;
    crossed.limits = check_binding(plan_.inputs, "input", names::kCrossLimits, DType::kInt32,
                                   std::span(&kPerToken, 1));
    crossed.tables =
        check_binding(plan_.inputs, "input", names::kCrossTables, DType::kInt32, kCrossTables);
    std::optional<Bound> positions;
    for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
      const fb::BindingT& input = *plan_.inputs[i];
      if (!is_crossed(input)) continue;
      check_.where = fmt::format("input '{}'", input.name);
      check_positions(input, positions);
      crossed.given.push_back(i);
    }
    if (!positions) check_.fail("the plan has '{}' and nothing of an encoder", names::kCrossTables);
    crossed.positions = most(*positions);
    found_.crossed = std::move(crossed);
  }

  /// The slots of states, [slots, ..]; only the number of slots is symbolic.
  void check_states() {
    if (!find(plan_.inputs, names::kStateSlots)) return;
    ServingPlan::States states;
    const auto at = [&](const char* name, const Size& size) {
      return check_binding(plan_.inputs, "input", name, DType::kInt32, std::span(&size, 1));
    };
    states.offsets = at(names::kStateOffsets, kPerToken);
    states.sources = at(names::kStateSources, kPerToken);
    states.slots = at(names::kStateSlots, kPerToken);
    states.stores = at(names::kStateStores, kPerStore);
    std::optional<Bound> slots;
    for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
      const fb::BindingT& input = *plan_.inputs[i];
      if (!is_pool(input)) continue;
      check_.where = fmt::format("states '{}'", input.name);
      auto bytes = static_cast<std::int64_t>(size_of(static_cast<DType>(input.dtype)));
      for (std::size_t d = 0; d < input.shape.size(); ++d) {
        const Bound size = bound(input.shape[d]);
        if (d == 0) {
          if (slots) require(*slots == size, d, "that of the other states");
          slots = size;
          continue;
        }
        require(!size.is_symbol && size.number >= 1 && size.number <= kMostPositionBytes, d,
                "a constant above 0");
        if (size.number > kMostPositionBytes / bytes) check_.fail("a slot of it is too large");
        bytes *= size.number;
      }
      states.bytes += static_cast<std::uint64_t>(bytes);
      if (states.bytes > static_cast<std::uint64_t>(kMostPositionBytes))
        check_.fail("a slot of all states is larger than {} bytes", kMostPositionBytes);
      states.pools.push_back(i);
    }
    check_.where = fmt::format("input '{}'", names::kStateSlots);
    if (!slots) check_.fail("the plan has slots and no states [slots, ..]");
    states.most = most(*slots);
    if (states.most < 1) check_.fail("the plan has no slots of states");
    found_.states = std::move(states);
  }

  /// Whether it is a state whose first dimension is open, as of a plan with slots.
  bool is_pool(const fb::BindingT& input) const {
    return find(plan_.inputs, names::kStateSlots) && is_state(input) && !input.shape.empty() &&
           bound(input.shape[0]).is_symbol;
  }

  /// Checks states [.., positions, columns]; only the number of positions is symbolic.
  void check_caches() {
    std::optional<Bound> positions;
    for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
      const fb::BindingT& input = *plan_.inputs[i];
      if (!is_state(input) || is_pool(input)) continue;
      check_.where = fmt::format("cache '{}'", input.name);
      const std::int64_t bytes = check_positions(input, positions);
      found_.position_bytes += static_cast<std::uint64_t>(bytes);
      found_.caches.push_back(i);
      if (found_.position_bytes > static_cast<std::uint64_t>(kMostPositionBytes))
        check_.fail("a position of all caches is larger than {} bytes", kMostPositionBytes);
    }
    if (!positions && !found_.states) check_.fail("the plan has no caches");
    if (positions) found_.cache_positions = most(*positions);
  }

  void check_most(Size size, std::int64_t limit, const char* what) const {
    if (most(size) < 1 || most(size) > limit)
      check_.fail("it has {} {}: from 1 to {} can be served", most(size), what, limit);
  }

  void check_sizes() {
    check_most(Size::kTokens, kMostTokens, "tokens in a step");
    check_most(Size::kSequences, kMostSequences, "sequences in a step");
    check_most(Size::kSamples, kMostTokens, "samples in a step");
    check_most(Size::kTableBlocks, kMostPositions, "blocks of a sequence");
    check_most(Size::kVocabulary, kMostVocabulary, "tokens of a vocabulary");
    const auto number = [&](Size size) { return static_cast<int>(most(size)); };
    found_.tokens = number(Size::kTokens);
    found_.sequences = number(Size::kSequences);
    found_.samples = number(Size::kSamples);
    found_.table_blocks = number(Size::kTableBlocks);
    found_.vocabulary = number(Size::kVocabulary);
    if (most(Size::kSequences) * most(Size::kTableBlocks) > kMostTable)
      check_.fail("block tables of {} sequences of {} blocks are too large: give fewer of one",
                  found_.sequences, found_.table_blocks);
    if (found_.crossed) {
      check_most(Size::kCrossBlocks, kMostPositions, "blocks of an encoder's positions");
      found_.crossed->table_blocks = number(Size::kCrossBlocks);
      if (most(Size::kSequences) * most(Size::kCrossBlocks) > kMostTable)
        check_.fail("tables of {} sequences of {} blocks of an encoder are too large",
                    found_.sequences, found_.crossed->table_blocks);
    }
    if (most(Size::kSequences) * most(Size::kVocabulary) > kMostSetBits)
      check_.fail("sets of {} tokens for {} sequences are too large", found_.vocabulary,
                  found_.sequences);
  }

  /// Block sizes in the manifest and in attention must agree.
  void check_blocks() {
    const std::string_view text = serve_option(plan_);
    const std::int64_t block = said(text, "block"), positions = said(text, "positions");
    if (block < 1 || block > kMostBlock || !std::has_single_bit(static_cast<std::uint64_t>(block)))
      check_.fail("its manifest says that blocks have {} positions, not a power of two up to {}",
                  block, kMostBlock);
    found_.block_size = static_cast<int>(block);
    const std::int64_t held = std::min<std::int64_t>(found_.table_blocks * block, kMostPositions);
    found_.sequence_positions = static_cast<int>(positions > 0 ? std::min(positions, held) : held);
    if (found_.crossed)
      found_.crossed->sequence_positions = static_cast<int>(
          std::min<std::int64_t>(found_.crossed->table_blocks * block, kMostPositions));
    for (const auto& step : plan_.steps)
      if (const auto* work = step->work.AsAttentionStep(); work != nullptr && work->tables)
        if (work->block != block)
          check_.fail("attention '{}' has blocks of {} positions, the manifest says {}", step->name,
                      work->block, block);
  }

  /// The executor sets no other inputs.
  void check_others() {
    for (const auto& input : plan_.inputs) {
      const bool is_known =
          is_state(*input) || input->name == names::kLogprobsWanted ||
          input->name == names::kTextLengths ||
          (found_.given &&
           (input->name == names::kGivenVectors || input->name == names::kGivenRows)) ||
          (found_.rotary && input->name == names::kRotaryPositions) ||
          (found_.states &&
           (input->name == names::kStateOffsets || input->name == names::kStateSources ||
            input->name == names::kStateSlots || input->name == names::kStateStores)) ||
          (found_.crossed && (is_crossed(*input) || input->name == names::kCrossLimits ||
                              input->name == names::kCrossTables)) ||
          std::ranges::any_of(kInputs, [&](const Row& row) { return input->name == row.name; });
      if (!is_known) check_.fail("the engine knows no input '{}'", input->name);
    }
  }

  Checker check_;
  const fb::PlanT& plan_;
  ServingPlan found_;
  std::array<std::optional<Bound>, 10> sizes_;
};

}  // namespace

bool is_serving(const fb::PlanT& plan) {
  return !serve_option(plan).empty() && find(plan.inputs, names::kBlockTables) &&
         find(plan.inputs, names::kSlotMapping);
}

ServingPlan serving_of(const fb::PlanT& plan) { return ServingChecker(plan).run(); }

}  // namespace sinter::plan
