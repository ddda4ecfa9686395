// SPDX-License-Identifier: Apache-2.0
// Recurrent layers: schedules, what is refused, and kernels on the emulator against their bodies.
#ifdef SINTER_WITH_CUDA
#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/families/recurrent/recurrent_lowering.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "tests/codegen/emulation/compile_all.h"
#include "tests/codegen/emulation/cuda_emulation.h"
#include "tests/support/random_inputs.h"

namespace sinter::test {
namespace {

using codegen::RecurrentSchedule;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct Layer {
  const char* name;
  const char* cell;  // "GRU0": the reset gate comes first
  const char* direction = "forward";
  int units = 8;
  bool lengths = false, states = false;
  const char* type = "f16";
  std::vector<std::pair<int, int>> sizes = {{1, 1}, {3, 2}, {5, 9}};  // steps, batch
  const char* schedule = "";
};

int gates_of(const std::string& cell) { return cell == "LSTM" ? 4 : cell == "RNN" ? 1 : 3; }

/// What a step makes of %g (the input's part), %p (the product), %h and %c, in float32.
std::string step_text(const std::string& cell, int units, const std::string& type) {
  std::string text;
  const auto slices = [&](const char* of, int count) {
    for (int i = 0; i < count; ++i)
      text += fmt::format(
          "%{0}{1} = Slice(%{0}) {{starts = [0, {2}], steps = [1, 1], shape = [batch, {3}]}}\n", of,
          i, i * units, units);
  };
  if (cell == "LSTM") {
    text += "%s = Add(%g, %p)\n";
    slices("s", 4);
    return text +
           "%in = Sigmoid(%s0)\n%out = Sigmoid(%s1)\n%forget = Sigmoid(%s2)\n%fresh = Tanh(%s3)\n"
           "%kept = Mul(%forget, %c)\n%added = Mul(%in, %fresh)\n%c2 = Add(%kept, %added)\n"
           "%bounded = Tanh(%c2)\n%h2 = Mul(%out, %bounded)\n";
  }
  if (cell == "RNN") return "%s = Add(%g, %p)\n%h2 = Tanh(%s)\n%c2 = Add(%c, %c)\n";
  if (cell == "GRU0") {
    slices("g", 3);
    slices("p", 2);
    return text +
           fmt::format(
               "%zs = Add(%g0, %p0)\n%z = Sigmoid(%zs)\n%rs = Add(%g1, %p1)\n%r = Sigmoid(%rs)\n"
               "%rh = Mul(%r, %h)\n%rounded2 = Cast(%rh) {{to = {}}}\n%q0 = MatMul(%rounded2, %t)\n"
               "%q = Cast(%q0) {{to = f32}}\n%q2 = Slice(%q) {{starts = [0, {}], steps = [1, 1], "
               "shape "
               "= [batch, {}]}}\n%ns = Add(%g2, %q2)\n%n = Tanh(%ns)\n%d = Sub(%h, %n)\n"
               "%zd = Mul(%z, %d)\n%h2 = Add(%n, %zd)\n%c2 = Add(%c, %c)\n",
               type, 2 * units, units);
  }
  text += "%pb = Add(%p, %b)\n";
  slices("g", 3);
  slices("pb", 3);
  return text +
         "%zs = Add(%g0, %pb0)\n%z = Sigmoid(%zs)\n%rs = Add(%g1, %pb1)\n%r = Sigmoid(%rs)\n"
         "%rp = Mul(%r, %pb2)\n%ns = Add(%g2, %rp)\n%n = Tanh(%ns)\n%d = Sub(%h, %n)\n"
         "%zd = Mul(%z, %d)\n%h2 = Add(%n, %zd)\n%c2 = Add(%c, %c)\n";
}

/// One direction of the layer as a loop, results %y{d}, %h{d}, %c{d} in float32.
std::string direction_text(const Layer& layer, int d) {
  const std::string cell = layer.cell;
  const int rows = gates_of(cell) * layer.units;
  const bool backwards = d == 1 || std::string(layer.direction) == "reverse";
  std::string text = fmt::format(
      "%x{0} = Slice(%wide) {{starts = [0, 0, {1}], steps = [1, 1, 1], shape = [steps, batch, "
      "{2}]}}\n%w{0} = Slice(%weights) {{starts = [{0}, 0, 0], steps = [1, 1, 1], shape = [1, {2}, "
      "{3}]}}\n%f{0} = Reshape(%w{0}) {{shape = [{2}, {3}]}}\n%t{0} = Transpose(%f{0}) {{perm = "
      "[1, "
      "0]}}\n",
      d, d * rows, rows, layer.units);
  for (const char* state : {"h", "c"})
    text += layer.states && (*state == 'h' || cell == "LSTM")
                ? fmt::format(
                      "%{0}s{1} = Slice(%{0}g) {{starts = [{1}, 0, 0], steps = [1, 1, 1], "
                      "shape = [1, batch, {2}]}}\n%{0}i{1} = Reshape(%{0}s{1}) {{shape = "
                      "[batch, {2}]}}\n",
                      state, d, layer.units)
                : fmt::format("%{0}i{1} = Expand(%nought) {{shape = [batch, {2}]}}\n", state, d,
                              layer.units);
  std::string captured = fmt::format("%x{0}, %t{0}", d), names = "%x, %t";
  if (cell == "GRU") {
    text += fmt::format(
        "%bs{0} = Slice(%bias) {{starts = [{0}, 0], steps = [1, 1], shape = [1, "
        "{1}]}}\n%bw{0} = Cast(%bs{0}) {{to = f32}}\n",
        d, rows);
    captured += fmt::format(", %bw{}", d);
    names += ", %b";
  }
  if (layer.lengths) {
    captured += ", %limits";
    names += ", %limits";
  }
  text += fmt::format(
      "%h{0}, %c{0}, %y{0} = While(%zero, %hi{0}, %ci{0}, %none, {1}) {{states = 3, trips = "
      "[steps]}} body(%i, %h, %c, %all, {2}) {{\n",
      d, captured, names);
  text += backwards ? "%n1 = Size() {value = [steps - 1]}\n%at = Sub(%n1, %i)\n"
                    : "%one = const i64[] {0}\n%at = Add(%i, %one)\n";
  text += fmt::format(
      "%g = Gather(%x, %at) {{axis = 0}}\n%rounded = Cast(%h) {{to = {}}}\n"
      "%product = MatMul(%rounded, %t)\n%p = Cast(%product) {{to = f32}}\n",
      layer.type);
  text += step_text(cell, layer.units, layer.type);
  if (layer.lengths)
    text +=
        "%inside = Less(%at, %limits)\n%nought = const f32[] {0}\n"
        "%y = Where(%inside, %h2, %nought)\n%h3 = Where(%inside, %h2, %h)\n"
        "%c3 = Where(%inside, %c2, %c)\n";
  text += fmt::format(
      "%rows = Iota() {{axis = 0, dtype = i64, shape = [batch]}}\n%column = Reshape(%rows) {{shape "
      "= [batch, 1]}}\n%unit = Iota() {{axis = 0, dtype = i64, shape = [{}]}}\n"
      "%all2 = Scatter(%all, {}, %at, %column, %unit)\nreturn {}, %all2\n}}\n",
      layer.units, layer.lengths ? "%y" : "%h2", layer.lengths ? "%h3, %c3" : "%h2, %c2");
  return text;
}

std::string layer_text(const Layer& layer) {
  const std::string cell = layer.cell;
  const int count = std::string(layer.direction) == "bidirectional" ? 2 : 1;
  const int rows = layer.units * gates_of(cell);
  std::string inputs = "%x, %w",
              types = fmt::format("%x: {0}[steps, batch, {1}], %w: {0}[{2}, {3}, {4}]", layer.type,
                                  count * rows, count, rows, layer.units);
  std::string flags;
  const auto add = [&](const char* name, const std::string& type, const char* flag) {
    inputs += fmt::format(", %{}", name);
    types += fmt::format(", %{}: {}", name, type);
    flags += fmt::format(", {} = 1", flag);
  };
  const std::string state = fmt::format("f32[{}, batch, {}]", count, layer.units);
  if (cell == "GRU") add("b", fmt::format("{}[{}, {}]", layer.type, count, rows), "bias");
  if (layer.states) add("h", state, "initial_h");
  if (layer.states && cell == "LSTM") add("c", state, "initial_c");
  if (layer.lengths) add("lens", "i32[batch]", "lengths");
  std::string names = inputs;
  for (const auto& [from, to] :
       {std::pair("%h", "%hg"), {"%c", "%cg"}, {"%b", "%bias"}, {"%w", "%weights"}})
    if (const auto at = names.find(from); at != std::string::npos) names.replace(at, 2, to);
  std::string text = fmt::format(
      "graph @layer({}) ranges {{batch: 1..64, steps: 1..64}} {{\n"
      "%y, %last{} = Recurrent({}) {{cell = \"{}\", direction = \"{}\", linear_before_reset = "
      "{}{}}} body({}) {{\n"
      "%zero = const i64[] {{0}}\n%nought = const f32[] {{0}}\n%wide = Cast(%x) {{to = f32}}\n"
      "%none = Expand(%nought) {{shape = [steps, batch, {}]}}\n",
      types, cell == "LSTM" ? ", %cell" : "", inputs, cell.substr(0, cell.find('0')),
      layer.direction, cell == "GRU" ? 1 : 0, flags, names, layer.units);
  if (layer.lengths)
    text += "%lens64 = Cast(%lens) {to = i64}\n%limits = Reshape(%lens64) {shape = [batch, 1]}\n";
  for (int d = 0; d < count; ++d) text += direction_text(layer, d);
  const auto stacked = [&](const char* of, const std::string& one, int axis) {
    std::string parts;
    for (int d = 0; d < count; ++d) {
      text += fmt::format("%{0}r{1} = Reshape(%{0}{1}) {{shape = [{2}]}}\n", of, d, one);
      parts += fmt::format("{}%{}r{}", d == 0 ? "" : ", ", of, d);
    }
    text += fmt::format("%{}all = Concat({}) {{axis = {}}}\n", of, parts, axis);
  };
  stacked("y", fmt::format("steps, 1, batch, {}", layer.units), 1);
  stacked("h", fmt::format("1, batch, {}", layer.units), 0);
  if (cell == "LSTM") stacked("c", fmt::format("1, batch, {}", layer.units), 0);
  text += fmt::format("%yn = Cast(%yall) {{to = {}}}\nreturn %yn, %hall{}\n}}\n", layer.type,
                      cell == "LSTM" ? ", %call" : "");
  return text +
         fmt::format("return y = %y, h = %last{}\n}}\n", cell == "LSTM" ? ", c = %cell" : "");
}

const Layer kLayers[] = {
    {"lstm", "LSTM"},
    {"lstm_odd", "LSTM", "bidirectional", 13, true, true},
    {"lstm_two_blocks", "LSTM", "reverse", 40, true, false},
    {"lstm_bf16", "LSTM", "bidirectional", 16, false, true, "bf16"},
    {"lstm_of_four",
     "LSTM",
     "forward",
     36,
     false,
     true,
     "f16",
     {{4, 8}},
     "recurrent cluster=4 warps=3 held=2 columns=8"},
    {"gru", "GRU", "bidirectional", 24, true, true},
    {"gru_one_warp_a_block",
     "GRU",
     "forward",
     20,
     false,
     false,
     "f16",
     {{6, 3}},
     "recurrent cluster=8 warps=1 held=1 columns=8"},
    {"gru_reset_first", "GRU0", "bidirectional", 18, true, true},
    {"lstm_16_columns",
     "LSTM",
     "bidirectional",
     12,
     true,
     true,
     "f16",
     {{3, 19}, {2, 16}},
     "recurrent cluster=1 warps=3 held=1 columns=16"},
    {"gru_32_columns",
     "GRU0",
     "reverse",
     12,
     true,
     false,
     "f16",
     {{3, 41}},
     "recurrent cluster=2 warps=2 held=1 columns=32"},
    {"rnn", "RNN", "bidirectional", 9, true, true},
    {"lstm_f32", "LSTM", "bidirectional", 40, true, true, "f32"},
    {"lstm_f32_in_shared_memory",
     "LSTM",
     "forward",
     72,
     false,
     true,
     "f32",
     {{4, 8}, {2, 3}},
     "recurrent cluster=4 warps=5 held=3 columns=8"},
    {"gru_f32_odd", "GRU", "reverse", 13, true, true, "f32"},
    {"gru_reset_first_f32",
     "GRU0",
     "bidirectional",
     18,
     true,
     true,
     "f32",
     {{3, 19}, {2, 16}},
     "recurrent cluster=2 warps=3 held=1 columns=16"},
    {"rnn_f32", "RNN", "bidirectional", 9, true, true, "f32"},
};

struct Emitted {
  ir::Graph graph;
  codegen::ExprTable exprs;
  codegen::EmittedKernel kernel;
};

Emitted emit(const Layer& layer, const std::string& schedule) {
  const ir::Graph graph = ir::parse_graph(layer_text(layer));
  ir::verify(graph);
  std::vector<std::uint32_t> inputs, outputs;
  for (std::uint32_t i = 0; i < graph.inputs().size(); ++i) inputs.push_back(i);
  for (std::uint32_t i = 0; i < graph.outputs().size(); ++i)
    outputs.push_back(static_cast<std::uint32_t>(inputs.size()) + i);
  codegen::ExprTable exprs(graph.ranges());
  const codegen::RecurrentProgram program = codegen::lower_recurrent(graph, inputs, outputs);
  codegen::KernelRequest request;
  request.name = layer.name;
  for (const auto* list : {&graph.inputs(), &graph.outputs()})
    for (const ir::ValueId value : *list) request.buffer_types.push_back(graph.type(value).dtype);
  auto kernel = codegen::emit_recurrent(program, request, schedule, exprs);
  return {graph, std::move(exprs), std::move(kernel)};
}

std::vector<ir::Tensor> inputs_of(const ir::Graph& graph, const ir::Bindings& sizes) {
  std::vector<ir::Tensor> inputs = random_inputs(graph, sizes, 5, 0.5);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (graph.value(graph.inputs()[i]).name != "lens") continue;
    std::vector<double> lengths;  // from none to more than there are
    for (std::int64_t e = 0; e < inputs[i].element_count(); ++e)
      lengths.push_back(static_cast<double>((e * 3 + 1) % (sizes.at("steps") + 2)));
    inputs[i] = ir::Tensor::from_doubles(inputs[i].dtype(), inputs[i].shape(), lengths);
  }
  return inputs;
}

/// States are rounded in each step, to 24, 11 or 8 bits, and are below 1.
std::string difference(const ir::Tensor& expected, const std::vector<std::byte>& found,
                       const std::string& type) {
  const double allowed = type == "f32" ? 4e-6 : type == "f16" ? 4e-3 : 3e-2;
  for (std::int64_t i = 0; i < expected.element_count(); ++i) {
    const double a = ir::load_as_double(
        expected.dtype(), found.data() + static_cast<std::size_t>(i) * size_of(expected.dtype()));
    if (!(std::abs(a - expected.at(i)) <= allowed * (1 + std::abs(expected.at(i)))))
      return fmt::format("[{}] is {}, not {}", i, a, expected.at(i));
  }
  return "";
}

TEST(RecurrentKernels, MeanTheirBodies) {
  std::vector<Emitted> emitted;
  std::vector<codegen::EmittedKernel> kernels;
  for (const Layer& layer : kLayers) {
    SCOPED_TRACE(layer.name);
    emitted.push_back(emit(layer, layer.schedule));
    kernels.push_back(emitted.back().kernel);
  }
  const EmulatedKernels library(kernels);
  for (std::size_t l = 0; l < std::size(kLayers); ++l) {
    const Layer& layer = kLayers[l];
    for (const auto& [steps, batch] : layer.sizes) {
      SCOPED_TRACE(fmt::format("{}: {} steps, {} sequences", layer.name, steps, batch));
      const Emitted& own = emitted[l];
      const ir::Bindings sizes{{"steps", steps}, {"batch", batch}};
      const auto inputs = inputs_of(own.graph, sizes);
      const std::vector<ir::Tensor> expected = ir::evaluate(own.graph, inputs);
      Memory memory;
      for (const ir::Tensor& input : inputs)
        memory.emplace_back(input.bytes().begin(), input.bytes().end());
      for (const ir::Tensor& result : expected)
        memory.emplace_back(result.bytes().size(), std::byte{0xa5});
      plan::fb::PlanT plan;
      own.exprs.write(plan);
      std::vector<std::int64_t> symbols;
      for (const auto& symbol : plan.symbols) symbols.push_back(sizes.at(symbol->name));
      EXPECT_EQ(run_variants(layer.name, library, own.kernel.step,
                             plan::evaluate_expressions(plan, symbols), memory,
                             [&](const plan::fb::KernelVariantT& variant, const Memory& found) {
                               std::string problems;
                               for (std::size_t i = 0; i < expected.size(); ++i)
                                 problems += problem_in(
                                     variant, i,
                                     difference(expected[i], found[inputs.size() + i], layer.type));
                               return problems;
                             }),
                "");
    }
  }
}

TEST(RecurrentKernels, CompileForEveryArchitectureWithClusters) {
  std::vector<std::string> sources;
  for (const Layer& layer : kLayers) sources.push_back(emit(layer, layer.schedule).kernel.source);
  sources.push_back(emit({"large", "LSTM", "bidirectional", 768}, "").kernel.source);
  sources.push_back(
      emit({"large_f32", "LSTM", "bidirectional", 512, false, false, "f32"}, "").kernel.source);
  const std::vector<std::string> architectures = {"sm_90", "sm_100"};
  for (const auto& kernels : codegen::compile_cuda(sources, architectures))
    for (const auto& kernel : kernels) EXPECT_GT(kernel.code.size(), 1000u);
}

TEST(RecurrentSchedules, TakeAsManyUnitsAsTheTargetSays) {
  for (const auto& [type, most] : codegen::cuda_target().traits().recurrent_units) {
    for (const codegen::DeviceModel& device : codegen::cuda_devices()) {
      if (device.cluster_blocks < 16) continue;
      for (const std::int64_t units : {std::int64_t{1}, std::int64_t{40}, most / 2, most}) {
        const codegen::RecurrentLayer layer{units, type};
        const auto schedules = codegen::recurrent_schedules(layer, 8, device);
        ASSERT_FALSE(schedules.empty())
            << units << " " << to_string(type) << " on " << device.architecture;
        for (const RecurrentSchedule& schedule : schedules) {
          EXPECT_LE(codegen::recurrent_shared_bytes(layer, schedule), device.block_shared_bytes);
          EXPECT_GE(schedule.blocks * schedule.warps * 4, units);
        }
      }
      EXPECT_TRUE(codegen::recurrent_schedules({2048, type}, 8, device).empty());
    }
  }
}

TEST(RecurrentSchedules, KeepAllWeightsInRegistersWhereTheyFit) {
  const auto& device = codegen::reference_device();
  EXPECT_EQ(codegen::recurrent_schedules({512, DType::kFloat16}, 8, device)[0].to_string(),
            "recurrent cluster=16 warps=8 held=16 columns=8");
  EXPECT_EQ(codegen::recurrent_schedules({256, DType::kFloat16}, 8, device)[0].to_string(),
            "recurrent cluster=8 warps=8 held=8 columns=8");
}

TEST(RecurrentSchedules, GiveAClusterMoreSequencesWhereThereAreMany) {
  const auto& device = codegen::reference_device();
  codegen::RecurrentProgram program;
  program.units = 512;
  program.directions = 2;
  program.batch = ir::Dim::symbol("batch");
  codegen::ExprTable exprs(ir::Ranges{{"batch", {1, 1000}}});
  const auto rules = codegen::choose_recurrent(program, exprs, device, "");
  ASSERT_EQ(rules.size(), 3u);
  for (std::size_t r = 0; r < rules.size(); ++r) {
    EXPECT_EQ(rules[r].columns, 8 << r);
    EXPECT_EQ(rules[r].conditions.empty(), r == 2);
  }
  // 7 clusters of 16 blocks run at once, 3 of each direction.
  EXPECT_EQ(rules[0].conditions[0].max(), 24);
  program.batch = 16;
  EXPECT_EQ(codegen::choose_recurrent(program, exprs, device, "").size(), 1u);
  program.batch = 600;
  const auto only = codegen::choose_recurrent(program, exprs, device, "");
  ASSERT_EQ(only.size(), 1u);
  EXPECT_EQ(only[0].columns, 32);
  const std::string last = rules[2].to_string();
  EXPECT_EQ(codegen::choose_recurrent(program, exprs, device, last)[0].to_string(), last);
  EXPECT_THAT([&] { codegen::choose_recurrent(program, exprs, device, "recurrent cluster=3"); },
              ThrowsMessage<Error>(HasSubstr(last)));
  program.units = 2048;
  EXPECT_THAT([&] { codegen::choose_recurrent(program, exprs, device, ""); },
              ThrowsMessage<Error>(HasSubstr("do not fit on chip")));
}

TEST(RecurrentLowering, RefusesByName) {
  const auto refusal = [](std::string text) {
    try {
      const ir::Graph graph = ir::parse_graph(text);
      std::vector<std::uint32_t> inputs(graph.inputs().size(), 0),
          outputs(graph.outputs().size(), 0);
      codegen::lower_recurrent(graph, inputs, outputs);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto with = [](std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  };
  const std::string lstm = layer_text({"lstm", "LSTM"});
  EXPECT_EQ(refusal(lstm), "");
  EXPECT_THAT(refusal(with(lstm, "linear_before_reset",
                           "special = \"it clips at 3\", linear_before_reset")),
              HasSubstr("clips at 3"));
  EXPECT_THAT(refusal(layer_text({"wide", "LSTM", "forward", 8, false, false, "f64"})),
              HasSubstr("f16, bf16 or f32"));
}

}  // namespace
}  // namespace sinter::test
#endif
