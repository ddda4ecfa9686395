// SPDX-License-Identifier: Apache-2.0
// LinearAttention on the emulator against the reference, token by token and by chunks.
#ifdef SINTER_WITH_CUDA
#include <cmath>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/families/linear_attention/emit_linear_attention.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "ir/graph.h"
#include "ir/reference/evaluate.h"
#include "runtime/plan/plan_data.h"
#include "tests/codegen/emulation/compile_all.h"
#include "tests/codegen/emulation/cuda_emulation.h"

namespace sinter::test {
namespace {

using codegen::LinearAttentionProblem;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr DType kF16 = DType::kFloat16, kBF16 = DType::kBFloat16, kF32 = DType::kFloat32;

struct Layer {
  const char* rule;
  const char* gate;  // "", "head", "channel"
  std::int64_t keys = 64, values = 64;
  std::int64_t query_heads = 1, key_heads = 1, value_heads = 1;
  DType type = kF16, gates = kF32;
  std::optional<DType> state = kF32;
  double decay = 0.3;  // the size of log gates
  const char* schedule = "";

  std::int64_t heads() const { return std::max(key_heads, value_heads); }
  bool has_gate() const { return *gate != '\0'; }
  ir::Attrs attrs() const {
    return {{"rule", std::string(rule)},
            {"scale", 0.125},
            {"decay", static_cast<std::int64_t>(has_gate())},
            {"state", static_cast<std::int64_t>(state.has_value())}};
  }
  std::vector<ir::TensorType> types(const ir::Dim& batch, const ir::Dim& length) const {
    const ir::Dim heads_dim(heads()), keys_dim(keys), values_dim(values);
    std::vector<ir::TensorType> all = {
        {type, {batch, length, ir::Dim(query_heads), keys_dim}},
        {type, {batch, length, ir::Dim(key_heads), keys_dim}},
        {type, {batch, length, ir::Dim(value_heads), values_dim}},
    };
    if (has_gate()) all.push_back({gates, {batch, length, heads_dim}});
    if (std::string(gate) == "channel") all.back().shape.push_back(keys_dim);
    if (std::string(rule) == "delta") all.push_back({type, {batch, length, heads_dim}});
    if (std::string(rule) == "general_delta")
      all.push_back({type, {batch, length, heads_dim, ir::Dim(2 * keys)}});
    if (state) all.push_back({*state, {batch, heads_dim, keys_dim, values_dim}});
    return all;
  }
};

/// Keys and erased directions have length 1, as in all models: the state stays of one size.
std::vector<ir::Tensor> inputs_of(const Layer& layer, std::int64_t batch, std::int64_t length) {
  std::mt19937 random(11);
  std::normal_distribution<double> normal;
  std::vector<ir::Tensor> all;
  const auto types = layer.types(ir::Dim(batch), ir::Dim(length));
  const ir::LinearAttentionInputs which = ir::linear_attention(layer.attrs(), types).inputs;
  for (std::size_t i = 0; i < types.size(); ++i) {
    ir::Ints shape;
    std::int64_t count = 1;
    for (const ir::Dim& dim : types[i].shape) {
      shape.push_back(dim.value());
      count *= dim.value();
    }
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& value : values) {
      value = normal(random);
      if (i == which.decay) value = -std::abs(value) * layer.decay;
      if (i == which.beta) value = 1 / (1 + std::exp(-value));
    }
    if (i == 1 || i == which.erase)
      for (std::size_t row = 0; row < values.size(); row += static_cast<std::size_t>(layer.keys)) {
        double squares = 0;
        for (std::int64_t c = 0; c < layer.keys; ++c)
          squares +=
              values[row + static_cast<std::size_t>(c)] * values[row + static_cast<std::size_t>(c)];
        for (std::int64_t c = 0; c < layer.keys; ++c)
          values[row + static_cast<std::size_t>(c)] /= std::sqrt(squares);
      }
    all.push_back(ir::Tensor::from_doubles(types[i].dtype, shape, values));
  }
  return all;
}

/// Buffers are the inputs in order, out, new_state, the records of chunks.
LinearAttentionProblem problem_of(const Layer& layer) {
  LinearAttentionProblem problem;
  const auto types = layer.types(ir::Dim::symbol("batch"), ir::Dim::symbol("length"));
  problem.layer = ir::linear_attention(layer.attrs(), types);
  const auto operand = [&](std::size_t i) {
    return codegen::StateOperand{static_cast<std::uint32_t>(i), types[i].dtype};
  };
  problem.query = operand(0);
  problem.key = operand(1);
  problem.value = operand(2);
  const ir::LinearAttentionInputs& which = problem.layer.inputs;
  if (which.decay) problem.decay = operand(*which.decay);
  if (which.beta) problem.beta = operand(*which.beta);
  if (which.erase) problem.erase = operand(*which.erase);
  if (which.state) problem.state = operand(*which.state);
  const auto first = static_cast<std::uint32_t>(types.size());
  problem.out = {first, layer.type};
  problem.new_state = {first + 1, layer.state.value_or(kF32)};
  return problem;
}
codegen::ChunkBuffers buffers_of(const LinearAttentionProblem& problem) {
  return {.records = problem.new_state.buffer + 1};
}

const ir::Ranges kRanges = {{"batch", {0, 64}}, {"length", {0, 4096}}};

codegen::KernelRequest request_of(const std::string& name, const codegen::DeviceModel& device) {
  codegen::KernelRequest request;
  request.name = name;
  request.device = &device;
  return request;
}

/// ||found - expected|| / ||expected||, from element `first` on; NaN where one has what the other
/// has not.
double error_of(const ir::Tensor& expected, const std::vector<std::byte>& bytes,
                std::int64_t first) {
  const ir::Tensor found(expected.dtype(), expected.shape(), ir::Buffer::take(bytes));
  double squares = 0, differences = 0;
  for (std::int64_t i = first; i < expected.element_count(); ++i) {
    squares += expected.at(i) * expected.at(i);
    differences += (found.at(i) - expected.at(i)) * (found.at(i) - expected.at(i));
  }
  return differences == 0 ? 0 : std::sqrt(differences / squares);
}
double most_error(DType type, DType state) {
  if (type == kF32 && state == kF32) return 1e-5;
  if (type == kBF16 || state == kBF16) return 1.2e-2;
  return 1.5e-3;
}

/// A NaN among the values of the first sequence of several.
void poison(std::vector<ir::Tensor>& inputs) {
  ir::Tensor& values = inputs[2];
  std::vector<double> all;
  for (std::int64_t i = 0; i < values.element_count(); ++i) all.push_back(values.at(i));
  all[all.size() / 4] = std::nan("");
  values = ir::Tensor::from_doubles(values.dtype(), values.shape(), all);
}

/// Compares for all (batch, length); `which` kernels: "tokens" or "chunks". If `poisoned`, a NaN is
/// among the first half of the sequences, and the others are compared.
void check(std::span<const Layer> layers, const char* which,
           const std::vector<std::pair<std::int64_t, std::int64_t>>& sizes, bool poisoned = false) {
  const codegen::DeviceModel& device = codegen::cuda_device("sm_90");
  std::vector<codegen::EmittedKernel> all;
  std::vector<codegen::ExprTable> tables;
  tables.reserve(layers.size());
  std::vector<std::size_t> first;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    SCOPED_TRACE(l);
    const LinearAttentionProblem problem = problem_of(layers[l]);
    auto& exprs = tables.emplace_back(kRanges);
    first.push_back(all.size());
    const std::string name = fmt::format("{}_{}", which, l);
    if (std::string(which) == "tokens") {
      all.push_back(emit_token_states(problem, request_of(name, device), exprs));
    } else {
      ASSERT_EQ(problem.no_chunks(device), "");
      const auto buffers = buffers_of(problem);
      all.push_back(
          emit_chunk_operands(problem, buffers, request_of(name + "_operands", device), exprs));
      all.push_back(emit_chunk_states(problem, buffers, layers[l].schedule,
                                      request_of(name + "_states", device), exprs));
    }
  }
  first.push_back(all.size());
  const EmulatedKernels library(all);
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const Layer& layer = layers[l];
    const LinearAttentionProblem problem = problem_of(layer);
    for (const auto& [batch, length] : sizes) {
      SCOPED_TRACE(fmt::format("layer {}: {} {}, {} of {} tokens", l, layer.rule, layer.gate, batch,
                               length));
      auto inputs = inputs_of(layer, batch, length);
      if (poisoned) poison(inputs);
      const auto expected = ir::evaluate_op(ir::get_op("LinearAttention"), layer.attrs(), inputs);
      Memory memory;
      for (const ir::Tensor& input : inputs)
        memory.emplace_back(input.bytes().begin(), input.bytes().end());
      for (const ir::Tensor& result : expected)
        memory.emplace_back(result.bytes().size(), std::byte{0xff});
      const auto chunks = static_cast<std::size_t>(batch * layer.heads() * ((length + 63) / 64));
      memory.emplace_back(chunks * static_cast<std::size_t>(problem.record_bytes()),
                          std::byte{0xff});
      plan::fb::PlanT plan;
      tables[l].write(plan);
      std::vector<std::int64_t> symbols;
      for (const auto& symbol : plan.symbols)
        symbols.push_back(symbol->name == "batch" ? batch : length);
      const auto values = plan::evaluate_expressions(plan, symbols);
      for (std::size_t k = first[l]; k < first[l + 1]; ++k) {
        const auto& variants = all[k].step.variants;
        std::size_t variant = 0;
        while (variant < variants.size() && !may_run(*variants[variant], values)) ++variant;
        ASSERT_LT(variant, variants.size());
        if (values[variants[variant]->grid[0]] > 0)
          library.run(all[k].step, variant, values, memory);
      }
      const double most = most_error(layer.type, layer.state.value_or(kF32));
      const auto error = [&](std::size_t i, std::uint32_t buffer) {
        return error_of(expected[i], memory[buffer],
                        poisoned ? expected[i].element_count() / 2 : 0);
      };
      EXPECT_LE(error(0, problem.out.buffer), most) << "out";
      EXPECT_LE(error(1, problem.new_state.buffer), most) << "new_state";
    }
  }
}

const std::vector<std::pair<std::int64_t, std::int64_t>> kLengths = {
    {1, 1}, {2, 2}, {1, 17}, {1, 63}, {2, 64}, {1, 65}, {1, 100}, {1, 128}, {1, 200}, {2, 0}};

TEST(LinearAttentionTokens, MeanTheReference) {
  const std::vector<Layer> layers = {
      {"linear", "", 64, 64, 1, 1, 1, kF32},
      {"linear", "head", 16, 24, 2, 1, 2, kBF16},
      {"linear", "channel", 16, 1, 1, 1, 6, kF32, kF32, std::nullopt},
      {"linear", "head", 128, 32, 4, 2, 1, kF16, kF16, kF16},
      {"delta", "head", 128, 128, 1, 1, 2, kBF16, kF32, kBF16},
      {"delta", "channel", 48, 20, 2, 2, 2, kF16},
      {"delta", "", 40, 7, 3, 3, 3, kF32},
      {"delta", "channel", 256, 16, 1, 1, 1, kF32},
      {"general_delta", "channel", 64, 64, 2, 2, 2, kBF16},
      {"general_delta", "", 20, 12, 4, 2, 2, kF32, kF32, std::nullopt},
      {"linear", "head", 3, 5, 6, 1, 3, kF16},
  };
  check(layers, "tokens", {{1, 1}, {2, 2}, {1, 3}, {3, 5}, {1, 17}, {2, 0}});
}

/// A ragged batch: sequences end to end, their states in slots.
struct Batch {
  std::vector<double> starts, sources, slots;
  std::int64_t slot_count = 9;

  std::int64_t tokens() const { return std::ssize(slots); }
};

/// Compares with the reference; with chunks, token by token what has none.
void check_ragged(std::span<const Layer> layers, const Batch& batch, bool has_chunks) {
  std::vector<codegen::EmittedKernel> all;
  std::vector<codegen::ExprTable> tables;
  tables.reserve(layers.size());
  std::vector<LinearAttentionProblem> problems;
  std::vector<std::size_t> first;
  ir::Ranges ranges = kRanges;
  ranges["sequences"] = ranges["slots"] = {0, 64};
  const auto ragged_types = [](const Layer& layer, const ir::Dim& length, const ir::Dim& sequences,
                               const ir::Dim& count) {
    auto types = layer.types(ir::Dim(1), length);
    types.back().shape[0] = count;
    types.push_back({DType::kInt32, {sequences + ir::Dim(1)}});
    types.insert(types.end(), 2, {DType::kInt32, {length}});
    return types;
  };
  const auto attrs_of = [](const Layer& layer) {
    ir::Attrs attrs = layer.attrs();
    attrs.set("ragged", std::int64_t{1});
    return attrs;
  };
  for (std::size_t l = 0; l < layers.size(); ++l) {
    LinearAttentionProblem problem = problem_of(layers[l]);
    const auto types = ragged_types(layers[l], ir::Dim::symbol("length"),
                                    ir::Dim::symbol("sequences"), ir::Dim::symbol("slots"));
    problem.layer = ir::linear_attention(attrs_of(layers[l]), types);
    const auto operand = [&](const std::optional<std::size_t>& i) {
      return codegen::StateOperand{static_cast<std::uint32_t>(*i), types[*i].dtype};
    };
    const ir::LinearAttentionInputs& which = problem.layer.inputs;
    problem.starts = operand(which.starts);
    problem.sources = operand(which.sources);
    problem.slots = operand(which.slots);
    problem.out.buffer = static_cast<std::uint32_t>(types.size());
    problem.new_state.buffer = problem.state->buffer;  // in place
    auto& exprs = tables.emplace_back(ranges);
    const codegen::DeviceModel& device = codegen::cuda_device("sm_90");
    const auto request = [&](const char* name) {
      return request_of(fmt::format("{}_{}", name, l), device);
    };
    const codegen::ChunkBuffers buffers{.records = problem.out.buffer + 1,
                                        .table = problem.out.buffer + 2};
    first.push_back(all.size());
    if (has_chunks) {
      ASSERT_EQ(problem.no_chunks(device), "");
      all.push_back(emit_chunk_table(problem, buffers, request("table"), exprs));
      all.push_back(emit_chunk_operands(problem, buffers, request("operands"), exprs));
      all.push_back(
          emit_chunk_states(problem, buffers, layers[l].schedule, request("states"), exprs));
      all.push_back(emit_token_states(problem, request("tokens"), exprs, buffers.table));
    } else {
      all.push_back(emit_token_states(problem, request("ragged"), exprs));
    }
    problems.push_back(std::move(problem));
  }
  first.push_back(all.size());
  const EmulatedKernels library(all);
  for (std::size_t l = 0; l < layers.size(); ++l) {
    SCOPED_TRACE(l);
    auto inputs = inputs_of(layers[l], 1, batch.tokens());
    inputs.back() = inputs_of(layers[l], batch.slot_count, 1).back();
    for (const auto* each : {&batch.starts, &batch.sources, &batch.slots})
      inputs.push_back(ir::Tensor::from_doubles(DType::kInt32, {std::ssize(*each)}, *each));
    const auto expected =
        ir::evaluate_op(ir::get_op("LinearAttention"), attrs_of(layers[l]), inputs);
    Memory memory;
    for (const ir::Tensor& input : inputs)
      memory.emplace_back(input.bytes().begin(), input.bytes().end());
    // Padding is left as it was.
    memory.emplace_back(expected[0].bytes().size(), std::byte{0});
    const auto chunks = static_cast<std::size_t>((batch.tokens() + 31) / 32);
    memory.emplace_back(chunks * static_cast<std::size_t>(layers[l].heads()) *
                            static_cast<std::size_t>(problems[l].record_bytes()),
                        std::byte{0xff});
    memory.emplace_back((chunks * 4 + batch.starts.size()) * 4, std::byte{0xff});
    plan::fb::PlanT plan;
    tables[l].write(plan);
    std::vector<std::int64_t> symbols;
    for (const auto& symbol : plan.symbols)
      symbols.push_back(symbol->name == "length"      ? batch.tokens()
                        : symbol->name == "sequences" ? std::ssize(batch.starts) - 1
                        : symbol->name == "batch"     ? 1
                                                      : batch.slot_count);
    const auto values = plan::evaluate_expressions(plan, symbols);
    for (std::size_t k = first[l]; k < first[l + 1]; ++k)
      library.run(all[k].step, 0, values, memory);
    const double most = most_error(layers[l].type, kF32);
    EXPECT_LE(error_of(expected[0], memory[problems[l].out.buffer], 0), most) << "out";
    EXPECT_LE(error_of(expected[1], memory[problems[l].new_state.buffer], 0), most) << "states";
  }
}

/// Some begin, some go on, some keep what is within.
TEST(LinearAttentionTokens, TakeRaggedBatches) {
  const std::vector<Layer> layers = {
      {"linear", "head", 16, 24, 2, 1, 2, kBF16},  {"delta", "head", 128, 128, 1, 1, 2, kBF16},
      {"delta", "channel", 48, 20, 2, 2, 2, kF16}, {"general_delta", "", 20, 12, 4, 2, 2, kF32},
      {"linear", "head", 3, 5, 6, 1, 3, kF16},
  };
  check_ragged(layers,
               {{0, 5, 5, 6, 11, 11},
                {-1, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 0},
                {-1, 4, -1, -1, 1, 7, 3, -1, 5, -1, 2, -1}},
               false);
}

TEST(LinearAttentionChunks, TakeRaggedBatches) {
  const std::vector<Layer> layers = {
      {"linear", "head", 64, 32, 1, 1, 3, kF16},
      {"delta", "head", 64, 64, 2, 1, 2, kBF16},
      {"delta", "channel", 64, 48},
      {"linear", "", 64, 16},
  };
  // Of 200 tokens, of which two more keep their states; of one; of none; of 33; of 64, of which
  // every fourth keeps its state; of 31; padding.
  Batch batch{.starts = {0, 200, 201, 201, 234, 298, 329}, .sources = {}, .slots = {}};
  batch.slot_count = 24;
  batch.sources.assign(340, 0);
  batch.slots.assign(340, -1);
  const std::vector<double> sources = {3, 1, -1, -1, 2, 0};
  int slot = 0;
  for (std::size_t s = 0; s + 1 < batch.starts.size(); ++s) {
    const auto begin = static_cast<std::size_t>(batch.starts[s]),
               end = static_cast<std::size_t>(batch.starts[s + 1]);
    if (begin == end) continue;
    batch.sources[begin] = sources[s];
    batch.slots[end - 1] = slot == static_cast<int>(sources[s]) ? slot++ : 4 + slot++;
  }
  batch.slots[95] = 10;
  batch.slots[127] = 11;
  for (std::size_t i = 237; i < 290; i += 4) batch.slots[i] = 12 + static_cast<double>(i / 4 % 12);
  check_ragged(layers, batch, true);
}

TEST(LinearAttentionChunks, MeanTheReference) {
  const std::vector<Layer> layers = {
      {"linear", ""},
      {"linear", "head", 64, 32, 1, 1, 3, kF16, kF32, std::nullopt},
      {"linear", "channel", 64, 16},
      {"delta", "", 64, 32},
      {"delta", "head", 64, 64, 2, 1, 2, kBF16, kBF16},
      {"delta", "channel", 64, 48},
      {"delta", "channel", 64, 32, 1, 2, 1, kBF16, kF16, kBF16},
  };
  check(layers, "chunks", kLengths);
}

TEST(LinearAttentionChunks, TakeLargeStatesAndEverySchedule) {
  const std::vector<Layer> layers = {
      {"delta", "head", 128, 128},
      {"delta", "channel", 128, 64},
      {"linear", "head", 256, 64},
      {"delta", "head", 64, 64, 1, 1, 1, kF16, kF32, kF32, 0.3, "linear_attention slice=64"},
      {"delta", "head", 64, 64, 1, 1, 1, kF16, kF32, kF32, 0.3, "linear_attention slice=32"},
      {"delta", "head", 64, 64, 1, 1, 1, kF16, kF32, kF32, 0.3, "linear_attention slice=16"},
  };
  check(layers, "chunks", {{1, 150}});
}

/// Gates that leave nothing, and that leave all.
TEST(LinearAttentionChunks, TakeStrongGates) {
  std::vector<Layer> layers;
  for (const char* rule : {"linear", "delta"})
    for (const char* gate : {"head", "channel"})
      for (const double decay : {1e-4, 5.0, 100.0, 1e30})
        layers.push_back({rule, gate, 64, 16, 1, 1, 1, kF16, kF32, kF32, decay});
  check(layers, "chunks", {{1, 130}});
}

TEST(LinearAttentionChunks, KeepNaNsInTheirSequence) {
  const std::vector<Layer> layers = {{"delta", "head", 64, 32}, {"linear", "channel", 64, 16}};
  check(layers, "chunks", {{2, 70}}, true);
}

TEST(LinearAttentionKernels, CompileForEveryArchitecture) {
  std::vector<std::string> sources;
  for (const Layer& layer : {Layer{"delta", "head", 128, 128, 16, 16, 32, kBF16},
                             Layer{"delta", "channel", 128, 128, 12, 12, 12, kBF16},
                             Layer{"linear", "head", 128, 64, 1, 1, 24},
                             Layer{"general_delta", "channel", 64, 64, 8, 8, 8}}) {
    const LinearAttentionProblem problem = problem_of(layer);
    codegen::ExprTable exprs(kRanges);
    const codegen::DeviceModel& device = codegen::reference_device();
    sources.push_back(emit_token_states(problem, request_of("tokens", device), exprs).source);
    if (!problem.no_chunks(device).empty()) continue;
    const auto buffers = buffers_of(problem);
    sources.push_back(
        emit_chunk_operands(problem, buffers, request_of("operands", device), exprs).source);
    sources.push_back(
        emit_chunk_states(problem, buffers, "", request_of("states", device), exprs).source);
  }
  const std::vector<std::string> architectures = {"sm_80", "sm_90", "sm_100"};
  for (const auto& kernels : codegen::compile_cuda(sources, architectures))
    for (const auto& kernel : kernels) EXPECT_GT(kernel.code.size(), 1000u);
}

TEST(LinearAttentionSchedules, AreWiderForMoreSequences) {
  const LinearAttentionProblem problem = problem_of({"delta", "head", 128, 128, 16, 16, 32, kBF16});
  codegen::ExprTable exprs(kRanges);
  const auto& device = codegen::reference_device();
  const auto chosen = codegen::choose_chunks(problem, exprs, device, "");
  ASSERT_EQ(chosen.size(), 2u);
  EXPECT_EQ(chosen[0].to_string(), "linear_attention slice=32");
  EXPECT_EQ(chosen[0].conditions[0].max(), 1);
  EXPECT_EQ(chosen[1].slice, 64);
  EXPECT_TRUE(chosen[1].conditions.empty());
  EXPECT_THAT([&] { codegen::choose_chunks(problem, exprs, device, "linear_attention slice=8"); },
              ThrowsMessage<Error>(HasSubstr("is none of this layer's")));
}

TEST(LinearAttentionSchedules, RefuseChunksByName) {
  const auto& device = codegen::reference_device();
  const auto why = [&](const Layer& layer) { return problem_of(layer).no_chunks(device); };
  EXPECT_THAT(why({"linear", "", 64, 64, 1, 1, 1, kF32}), HasSubstr("16 bits"));
  EXPECT_THAT(why({"general_delta", ""}), HasSubstr("rule"));
  EXPECT_THAT(why({"linear", "", 64, 64, 2, 1, 1}), HasSubstr("several queries"));
  EXPECT_THAT(why({"linear", "", 80, 64}), HasSubstr("keys"));
  EXPECT_THAT(why({"linear", "", 64, 24}), HasSubstr("values"));
  EXPECT_THAT(problem_of({"delta", "channel", 256, 128}).no_chunks(codegen::cuda_device("sm_89")),
              HasSubstr("sm_89"));
}

}  // namespace
}  // namespace sinter::test
#endif
