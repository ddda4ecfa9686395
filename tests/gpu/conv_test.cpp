// SPDX-License-Identifier: Apache-2.0
// Convolutions through cuDNN on a GPU, in all types and layouts, against loops on the host; and
// whole graphs with convolutions against the reference.
#include <Eigen/Core>
#include <chrono>
#include <cstring>
#include <iostream>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sinter/profile.h>

#include "codegen/compile.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "graphs/graph_exec.h"
#include "graphs/memory.h"
#include "ir/text/text.h"
#include "runtime/cuda/cudnn/conv_cudnn.h"
#include "tests/gpu/support.h"
#include "tests/runtime/cpu/conv_case.h"

namespace sinter::gpu_test {
namespace {

using plan::fb::Activation;
using sinter::testing::ConvCase;
using sinter::testing::PlanBuilder;

// Few significant bits: exact in every type.
std::vector<float> numbers(std::int64_t count, std::uint64_t seed, float unit) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (float& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = unit * static_cast<float>(static_cast<int>(state >> 33) % 17 - 8);
  }
  return values;
}

std::int64_t count_of(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

template <typename T>
std::vector<std::byte> stored_as(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T value(values[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}
template <typename T>
std::vector<float> loaded_as(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<float>(value);
  }
  return values;
}

std::vector<std::byte> store(const std::vector<float>& values, DType type) {
  switch (type) {
    case DType::kFloat16: return stored_as<Eigen::half>(values);
    case DType::kBFloat16: return stored_as<Eigen::bfloat16>(values);
    case DType::kFloat64: return stored_as<double>(values);
    default: return stored_as<float>(values);
  }
}
std::vector<float> load(const std::vector<std::byte>& bytes, DType type) {
  switch (type) {
    case DType::kFloat16: return loaded_as<Eigen::half>(bytes);
    case DType::kBFloat16: return loaded_as<Eigen::bfloat16>(bytes);
    case DType::kFloat64: return loaded_as<double>(bytes);
    default: return loaded_as<float>(bytes);
  }
}

struct ConvInputs {
  std::vector<float> x, w, bias, residual, expected;
};

const ConvInputs& inputs_of(const ConvCase& test) {
  static std::map<std::string, ConvInputs> made;  // types share them
  const auto [at, is_new] = made.try_emplace(test.name);
  ConvInputs& inputs = at->second;
  if (!is_new) return inputs;
  inputs.x = numbers(count_of(test.input_shape()), 1, 0.125f);
  inputs.w = numbers(count_of(test.weight_shape()), 2, 0.03125f);
  if (test.bias) inputs.bias = numbers(test.results, 3, 0.125f);
  if (test.residual) inputs.residual = numbers(count_of(test.output_shape()), 4, 0.125f);
  inputs.expected = test.expected(inputs.x, inputs.w, inputs.bias, inputs.residual);
  return inputs;
}

class Device {
 public:
  Device()
      : context(graphs::Context::retain(graphs::Driver::system(), 0)),
        stream(context),
        flush(context),
        workspace(context, kWorkspaceBytes) {
    libraries.context = context;
    libraries.workspace = workspace.address();
    libraries.workspace_bytes = workspace.size();
    libraries.stream = stream.handle();
    libraries.flush = &flush;
    libraries.tuning = runtime::TuningCache::open("", "convolutions of the GPU tests");
    const graphs::Context::Scope scope(*context);
    libraries.cudnn = runtime::make_cudnn_handle(runtime::load_cudnn());
  }

  graphs::DeviceMemory upload(const std::vector<std::byte>& bytes) {
    graphs::DeviceMemory memory(context, std::max<std::size_t>(bytes.size(), 16));
    context->driver().memcpy_htod_async(memory.address(), bytes.data(), bytes.size(),
                                        stream.handle());
    stream.synchronize();
    return memory;
  }
  std::vector<std::byte> download(const graphs::DeviceMemory& memory, std::size_t bytes) {
    std::vector<std::byte> host(bytes);
    context->driver().memcpy_dtoh_async(host.data(), memory.address(), bytes, stream.handle());
    stream.synchronize();
    return host;
  }

  static constexpr std::uint64_t kWorkspaceBytes = 32u << 20;
  graphs::ContextPtr context;
  graphs::Stream stream;
  runtime::FlushBuffer flush;
  graphs::DeviceMemory workspace;
  runtime::LibraryContext libraries;
};

/// Null where there is no cuDNN. Never freed: the driver may be gone before statics are.
Device* device() {
  static Device* made = []() -> Device* {
    try {
      return new Device();
    } catch (const Error& error) {
      std::cout << error.what() << std::endl;
      return nullptr;
    }
  }();
  return made;
}

runtime::ConvProblem problem_of(const ConvCase& test, DType type, plan::fb::MathMode math) {
  PlanBuilder builder;
  plan::fb::ConvStepT step = test.step(builder);
  step.math = math;
  step.input = step.weight = step.output = builder.arena(type, {builder.constant(1)});
  if (test.bias) step.bias = 0;
  if (test.residual) step.residual = 0;
  return runtime::bind_conv(builder.meta, step, plan::evaluate_expressions(builder.meta, {}));
}

/// Binds, captures and replays it; false if the library does not do it.
bool check(const ConvCase& test, DType type, double tolerance,
           plan::fb::MathMode math = plan::fb::MathMode::Default) {
  Device& gpu = *device();
  const graphs::Context::Scope scope(*gpu.context);
  const ConvInputs& inputs = inputs_of(test);
  const auto x = gpu.upload(store(inputs.x, type)), w = gpu.upload(store(inputs.w, type)),
             bias = gpu.upload(store(inputs.bias, type)),
             residual = gpu.upload(store(inputs.residual, type));
  const std::size_t bytes = inputs.expected.size() * size_of(type);
  const auto y = gpu.upload(std::vector<std::byte>(bytes));
  runtime::ConvAddresses addresses{x.address(),        w.address(), bias.address(),
                                   residual.address(), y.address(), 0};
  const runtime::ConvProblem problem = problem_of(test, type, math);
  std::unique_ptr<runtime::ConvLaunch> launch;
  const auto start = std::chrono::steady_clock::now();
  try {
    launch = std::make_unique<runtime::ConvLaunch>(gpu.libraries, problem, addresses);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    std::cout << error.what() << std::endl;
    return false;
  }
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  const auto tuned =
      gpu.libraries.tuning->find(fmt::format("{} ws{}", problem.key(), Device::kWorkspaceBytes));
  std::cout << fmt::format("{}: {}, {:.2f} us; chosen in {:.0f} ms\n", problem.key(),
                           launch->describe(), tuned ? tuned->microseconds : -1, taken.count());
  const auto graph = graphs::Graph::capture(gpu.context, gpu.stream.handle(),
                                            [&](CUstream stream) { launch->launch(stream); });
  const graphs::GraphExec exec(graph);
  std::vector<std::byte> first;
  for (int repeat = 0; repeat < 3; ++repeat) {
    // All bits set is a NaN in every type.
    gpu.context->driver().memset_d8_async(y.address(), 0xff, bytes, gpu.stream.handle());
    exec.launch(gpu.stream.handle());
    const auto found = gpu.download(y, bytes);
    if (first.empty()) first = found;
    EXPECT_TRUE(found == first) << "not the same bits in run " << repeat;
  }
  const auto values = load(first, type);
  double largest = 1e-6, worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(inputs.expected[i])));
    const double difference = std::abs(static_cast<double>(values[i]) - inputs.expected[i]);
    worst = difference <= worst ? worst : difference;  // keeps a NaN
  }
  EXPECT_LE(worst / largest, tolerance) << problem.key() << " by " << launch->describe();
  // What was chosen is taken again, without timing.
  const runtime::ConvLaunch again(gpu.libraries, problem, addresses);
  EXPECT_EQ(again.describe(), launch->describe());
  return true;
}

ConvCase conv2d(const char* name, std::int64_t n, std::int64_t c, std::int64_t m,
                std::vector<std::int64_t> size, std::int64_t kernel, std::int64_t stride = 1,
                std::int64_t dilation = 1, std::int64_t pad = 0, std::int64_t group = 1) {
  ConvCase test{name, true, n, c, m, group};
  const std::size_t rank = size.size();
  test.sizes = std::move(size);
  test.kernel.assign(rank, kernel);
  test.strides.assign(rank, stride);
  test.dilations.assign(rank, dilation);
  test.pads_begin.assign(rank, pad);
  test.pads_end.assign(rank, pad);
  test.bias = true;
  test.activation = Activation::Relu;
  return test;
}

std::vector<ConvCase> conv_cases() {
  std::vector<ConvCase> all = {
      conv2d("conv3x3", 1, 64, 64, {56, 56}, 3, 1, 1, 1),
      conv2d("conv3x3_deep", 1, 256, 256, {14, 14}, 3, 1, 1, 1),
      conv2d("conv1x1_strided", 2, 64, 128, {28, 28}, 1, 2),
      conv2d("stem7x7", 1, 3, 64, {112, 112}, 7, 2, 1, 3),
      conv2d("dilated", 2, 32, 32, {20, 20}, 3, 1, 2, 2),
      conv2d("odd_channels", 2, 7, 13, {17, 19}, 3, 1, 1, 1),
      conv2d("groups", 2, 64, 64, {20, 20}, 3, 1, 1, 1, 4),
      conv2d("depthwise", 2, 64, 64, {28, 28}, 3, 1, 1, 1, 64),
      conv2d("one_dimension", 2, 80, 96, {300}, 3, 1, 1, 1),
      conv2d("three_dimensions", 1, 16, 32, {8, 10, 12}, 3, 1, 1, 1),
  };
  const ConvCase base = conv2d("base", 2, 32, 48, {20, 18}, 3, 1, 1, 1);
  const auto add = [&](const char* name, auto&& change) {
    ConvCase test = base;
    test.name = name;
    change(test);
    all.push_back(std::move(test));
  };
  add("uneven_pads", [](ConvCase& t) { t.pads_begin = {0, 2}, t.pads_end = {2, 1}; });
  add("residual", [](ConvCase& t) { t.residual = true; });
  add("residual_without_activation",
      [](ConvCase& t) { t.residual = true, t.activation = Activation::None; });
  add("bias_alone", [](ConvCase& t) { t.activation = Activation::None; });
  add("plain", [](ConvCase& t) { t.bias = false, t.activation = Activation::None; });
  add("relu_alone", [](ConvCase& t) { t.bias = false; });
  add("channels_first", [](ConvCase& t) { t.channels_last = false, t.residual = true; });
  add("silu", [](ConvCase& t) { t.activation = Activation::Silu; });
  add("silu_residual", [](ConvCase& t) { t.activation = Activation::Silu, t.residual = true; });
  add("gelu_erf", [](ConvCase& t) { t.activation = Activation::GeluErf; });
  add("gelu_tanh", [](ConvCase& t) { t.activation = Activation::GeluTanh; });
  add("sigmoid", [](ConvCase& t) { t.activation = Activation::Sigmoid; });
  add("tanh", [](ConvCase& t) { t.activation = Activation::Tanh; });
  add("hard_sigmoid",
      [](ConvCase& t) { t.activation = Activation::HardSigmoid, t.a = 0.25f, t.b = 0.5f; });
  add("hard_swish",
      [](ConvCase& t) { t.activation = Activation::HardSwish, t.a = 0.125f, t.b = 0.5f; });
  add("leaky_relu", [](ConvCase& t) { t.activation = Activation::LeakyRelu, t.a = 0.125f; });
  add("clip", [](ConvCase& t) { t.activation = Activation::Clip, t.a = -0.5f, t.b = 1.5f; });
  return all;
}

class CudnnConv : public ::testing::TestWithParam<ConvCase> {
 protected:
  void SetUp() override {
    if (!device()) GTEST_SKIP() << "cuDNN is missing";
  }
};

// What cuDNN does not do is left to other ways of a step; what it does must be right. What its
// compiled engines do (cuda_cudnn_real_test) must be there.
TEST_P(CudnnConv, AgreesWithLoops) {
  const ConvCase& test = GetParam();
  const bool is_common =
      test.bias && (test.activation == Activation::Relu || test.activation == Activation::None);
  bool done = true;
  done = check(test, DType::kFloat16, 2e-3) && done;
  done = check(test, DType::kBFloat16, 1e-2) && done;
  done = check(test, DType::kFloat32, 1e-5) && done;
  if (is_common) {
    EXPECT_TRUE(done);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudnnConv, ::testing::ValuesIn(conv_cases()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CudnnMath, Tf32AndFloat64) {
  if (!device()) GTEST_SKIP() << "cuDNN is missing";
  ConvCase test = conv2d("tf32", 1, 64, 64, {28, 28}, 3, 1, 1, 1);
  EXPECT_TRUE(check(test, DType::kFloat32, 2e-3, plan::fb::MathMode::Tf32));
  test.name = "f64";
  test.bias = false;
  test.activation = Activation::None;
  EXPECT_TRUE(check(test, DType::kFloat64, 1e-6));
}

// ---- whole graphs

TEST(ConvGraphs, AgreeWithTheReferenceInEveryWay) {
  for (const DType type : {DType::kFloat16, DType::kFloat32}) {
    const std::string t(to_string(type));
    std::string text = R"(
graph @main(%x: T[n, 8, 24, 20]) ranges {n: 1..16} {
  %w0 = const T[32, 8, 3, 3] random(1)
  %b0 = const T[32] random(2)
  %w1 = const T[32, 32, 3, 3] random(3)
  %b1 = const T[32] random(4)
  %c0 = Conv(%x, %w0, %b0) {strides = [2, 2], dilations = [1, 1], pads_begin = [1, 1], pads_end = [1, 1], group = 1}
  %r0 = Relu(%c0)
  %c1 = Conv(%r0, %w1, %b1) {strides = [1, 1], dilations = [1, 1], pads_begin = [1, 1], pads_end = [1, 1], group = 1}
  %s1 = Add(%c1, %r0)
  %y = Relu(%s1)
  return y = %y
})";
    for (std::size_t at; (at = text.find("T[")) != std::string::npos;) text.replace(at, 1, t);
    const ir::Graph graph = ir::parse_graph(text);
    fusion::Context context;
    context.target = codegen::cuda_target().traits();
    codegen::CompileOptions options;
    options.target = &codegen::cuda_target();
    options.architectures = {architecture()};
    const ir::Graph fused = fusion::run_pipeline(graph, context).graph;
    for (const char* way : {"", "library"}) {
      SCOPED_TRACE(t + " " + way);
      options.gemm = way;
      Session session(
          Plan::from_memory(plan::serialize_plan(codegen::compile(fused, options).parts)));
      for (const std::int64_t n : {1, 4}) {
        const auto inputs = random_inputs(graph, {{"n", n}});
        const auto outputs = run(session, graph, inputs);
        expect_reference(graph, inputs, outputs, tolerance_of(type));
        expect_same_bits(run(session, graph, inputs), outputs);
      }
      for (const StepTime& step : profile_steps(session))
        std::cout << fmt::format("{} {}: {:.2f} us {}\n", t, step.name, step.microseconds,
                                 step.how);
    }
  }
}

}  // namespace
}  // namespace sinter::gpu_test
