// SPDX-License-Identifier: Apache-2.0
// Caches in rows of 8 bits: what they stand for, and which caches there are none of.
#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/targets/cpu/cpu_target.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "fusion/pipeline.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "support.h"

namespace sinter::fusion::test {
namespace {

using ::testing::HasSubstr;

/// Two rows at `at` and behind it of a cache of keys and of one of values, and attention of them.
constexpr const char* kDecoder = R"(
graph @main(%q: f32[1, 2, 2, 16], %k: f32[1, 2, 2, 16], %v: f32[1, 2, 2, 16], %at: i64[1],
            %key: f32[1, 2, 8, 16], %value: f32[1, 2, 8, 16])
    states {output 1 -> input 4, output 2 -> input 5} {
  %i0 = Iota() {axis = 0, dtype = i64, shape = [1, 1, 1, 1]}
  %i1 = Iota() {axis = 1, dtype = i64, shape = [1, 2, 1, 1]}
  %i2 = Iota() {axis = 2, dtype = i64, shape = [1, 1, 2, 1]}
  %i3 = Iota() {axis = 3, dtype = i64, shape = [1, 1, 1, 16]}
  %rows = Add(%i2, %at)
  %key_next = Scatter(%key, %k, %i0, %i1, %rows, %i3) {combine = "none"}
  %value_next = Scatter(%value, %v, %i0, %i1, %rows, %i3) {combine = "none"}
  %y = Attention(%q, %key_next, %value_next) {scale = 0.25}
  return y = %y, key_next = %key_next, value_next = %value_next
})";

Context context_of(const TargetTraits& target, DType type) {
  Context context;
  context.target = target;
  context.states.cache_type = type;
  return context;
}

Tensor numbers(DType type, const Ints& shape, int seed) {
  std::vector<double> values;
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(std::sin(static_cast<double>(i * 7 + seed)) * (i % 16 == 3 ? 4 : 1));
  return Tensor::from_doubles(type, shape, values);
}

/// Queries, keys, values and where these go: numbers of seeds a step apart.
std::vector<Tensor> two_rows(int seed, int step, std::int64_t at) {
  std::vector<Tensor> given;
  for (int i = 0; i < 3; ++i)
    given.push_back(numbers(DType::kFloat32, {1, 2, 2, 16}, seed + i * step));
  given.push_back(Tensor::from_ints(DType::kInt64, {1}, std::span(&at, 1)));
  return given;
}

/// Of the inputs from number `first` on.
std::vector<Tensor> zeros_of(const Graph& graph, std::size_t first) {
  std::vector<Tensor> all;
  for (std::size_t i = first; i < graph.inputs().size(); ++i) {
    const TensorType& type = graph.type(graph.inputs()[i]);
    Ints shape;
    for (const Dim& dim : type.shape) shape.push_back(dim.value());
    const auto count = static_cast<std::size_t>(ir::element_count(type.shape).value());
    all.push_back(Tensor::from_doubles(type.dtype, shape, std::vector<double>(count, 0)));
  }
  return all;
}

double error_of(const std::vector<double>& exact, const std::vector<double>& found) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    difference += (exact[i] - found[i]) * (exact[i] - found[i]);
    size += exact[i] * exact[i];
  }
  return std::sqrt(difference / size);
}

class CachePrecision : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, CachePrecision,
                         testing::Values(DType::kFloat8E4M3FN, DType::kInt8));

TEST_P(CachePrecision, AttentionIsThatOfRoundedRows) {
  const Graph model = ir::parse_graph(kDecoder);
  const double allowed = GetParam() == DType::kInt8 ? 0.01 : 0.04;
  for (const TargetTraits& target :
       {codegen::cpu_target().traits(), codegen::cuda_target().traits()})
    for (const bool fuse : {true, false}) {
      Context context = context_of(target, GetParam());
      context.fuse = fuse;
      const Graph graph = run_checked(model, context).graph;
      ASSERT_EQ(graph.inputs().size(), 8u);
      EXPECT_EQ(graph.type(graph.inputs()[4]).dtype, GetParam());
      EXPECT_EQ(graph.value(graph.inputs()[6]).name, "key.scales");
      EXPECT_EQ(ir::to_string(graph.type(graph.inputs()[6])), "f32[1, 2, 8, 1]");
      ASSERT_EQ(graph.states().size(), 4u);
      EXPECT_EQ(graph.states()[3], (ir::State{7, 4}));
      // The first two rows, then two more.
      std::vector<Tensor> exact = zeros_of(model, 4), rounded = zeros_of(graph, 4);
      for (int step = 0; step < 2; ++step) {
        std::vector<Tensor> a = two_rows(step, 10, step * 2), b = a;
        a.insert(a.end(), exact.begin(), exact.end());
        b.insert(b.end(), rounded.begin(), rounded.end());
        const auto expected = ir::evaluate(model, a), found = ir::evaluate(graph, b);
        EXPECT_LE(error_of(expected[0].to_doubles(), found[0].to_doubles()), allowed);
        exact.assign(expected.begin() + 1, expected.end());
        rounded.assign(found.begin() + 1, found.end());
      }
      // Rows that nobody wrote stand for zero, those that were written for what was put there.
      const std::vector<double> values = rounded[0].to_doubles(), scales = rounded[2].to_doubles();
      std::vector<double> product;
      for (std::size_t i = 0; i < values.size(); ++i) product.push_back(values[i] * scales[i / 16]);
      EXPECT_LE(error_of(exact[0].to_doubles(), product), allowed);
      EXPECT_GT(error_of(exact[0].to_doubles(), product), 1e-4);
    }
}

TEST_P(CachePrecision, IsReported) {
  Context context = context_of(codegen::cpu_target().traits(), GetParam());
  run_pass("quantize_caches", ir::parse_graph(kDecoder), context);
  ASSERT_EQ(context.caches.size(), 2u);
  EXPECT_EQ(context.caches[1].input, "value");
  EXPECT_EQ(context.caches[1].output, "value_next");
  EXPECT_EQ(context.caches[1].output_scales, "value_next.scales");
  EXPECT_EQ(context.caches[1].bytes_before, 1024);
  EXPECT_EQ(context.caches[1].bytes_after, 256 + 16 * 4);
  EXPECT_GT(context.caches[1].error, 1e-3);
  EXPECT_LT(context.caches[1].error, 0.04);
}

/// The same with keys far from zero, spelled out, whose unwritten rows a mask hides.
constexpr const char* kMaskedDecoder = R"(
graph @main(%q: f32[1, 2, 2, 16], %u: f32[1, 2, 2, 16], %v: f32[1, 2, 2, 16], %at: i64[1],
            %key: f32[1, 2, 8, 16], %value: f32[1, 2, 8, 16])
    states {output 1 -> input 4, output 2 -> input 5} {
  %far = const f32[16] {9.3, 0, -7.1, 0, 0, 0, 12.4, 0, 0, 5.7, 0, 0, 0, -8.6, 0, 0}
  %k = Add(%u, %far)
  %i0 = Iota() {axis = 0, dtype = i64, shape = [1, 1, 1, 1]}
  %i1 = Iota() {axis = 1, dtype = i64, shape = [1, 2, 1, 1]}
  %i2 = Iota() {axis = 2, dtype = i64, shape = [1, 1, 2, 1]}
  %i3 = Iota() {axis = 3, dtype = i64, shape = [1, 1, 1, 16]}
  %rows = Add(%i2, %at)
  %key_next = Scatter(%key, %k, %i0, %i1, %rows, %i3) {combine = "none"}
  %value_next = Scatter(%value, %v, %i0, %i1, %rows, %i3) {combine = "none"}
  %turned = Transpose(%key_next) {perm = [0, 1, 3, 2]}
  %dots = MatMul(%q, %turned)
  %scale = const f32[] {0.25}
  %scores = Mul(%dots, %scale)
  %column = Iota() {axis = 3, dtype = i64, shape = [1, 1, 1, 8]}
  %seen = LessOrEqual(%column, %rows)
  %never = const f32[] {-inf}
  %masked = Where(%seen, %scores, %never)
  %weights = Softmax(%masked) {axis = 3}
  %y = MatMul(%weights, %value_next)
  return y = %y, key_next = %key_next, value_next = %value_next
})";

std::shared_ptr<const Calibration> samples_of_rows() {
  auto samples = std::make_shared<Calibration>();
  samples->compile = [](const Graph& graph) {
    return [graph](std::span<const Tensor> inputs) { return ir::evaluate(graph, inputs); };
  };
  const Graph model = ir::parse_graph(kMaskedDecoder);
  for (int s = 0; s < 4; ++s) {
    std::vector<Tensor> sample = two_rows(s, 100, 0);
    for (Tensor& cache : zeros_of(model, 4)) sample.push_back(std::move(cache));
    samples->samples.push_back(std::move(sample));
  }
  return samples;
}

/// Of the first output, two rows at a time put into empty caches.
double attention_error(const std::string& text, bool calibrated, int* centred) {
  const Graph model = ir::parse_graph(text);
  Context context = context_of(codegen::cpu_target().traits(), DType::kFloat8E4M3FN);
  if (calibrated) context.weights.calibration = samples_of_rows();
  const Graph graph = run_pass("quantize_caches", model, context);
  *centred = static_cast<int>(context.precision_notes.size());
  std::vector<Tensor> exact = zeros_of(model, 4), rounded = zeros_of(graph, 4);
  double error = 0;
  for (int step = 0; step < 3; ++step) {
    std::vector<Tensor> a = two_rows(step, 10, step * 2), b = a;
    a.insert(a.end(), exact.begin(), exact.end());
    b.insert(b.end(), rounded.begin(), rounded.end());
    const auto expected = ir::evaluate(model, a), found = ir::evaluate(graph, b);
    error = std::max(error, error_of(expected[0].to_doubles(), found[0].to_doubles()));
    exact.assign(expected.begin() + 1, expected.end());
    rounded.assign(found.begin() + 1, found.end());
  }
  return error;
}

TEST(CacheMeans, KeysLessTheirMeansAreRoundedLess) {
  int centred = 0;
  const double plain = attention_error(kMaskedDecoder, false, &centred);
  EXPECT_EQ(centred, 0);
  const double less = attention_error(kMaskedDecoder, true, &centred);
  EXPECT_EQ(centred, 1);
  EXPECT_LT(less, 0.75 * plain);
}

TEST(CacheMeans, StayWhereTheyWouldBeSeen) {
  const auto with = [](const std::string& what, const std::string& other) {
    std::string text = kMaskedDecoder;
    const std::size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    text.replace(at, what.size(), other);
    return text;
  };
  const std::string mask = "%masked = Where(%seen, %scores, %never)";
  for (const std::string& text :
       {with(mask, "%masked = Mul(%scores, %scale)"),  // rows that nobody wrote are read
        with("%scores = Mul(%dots, %scale)", "%s0 = Mul(%dots, %scale)\n  %scores = Tanh(%s0)"),
        with("return y = %y", "return s = %scores, y = %y"),
        with("%y = MatMul(%weights, %value_next)",
             "%y0 = MatMul(%weights, %value_next)\n"
             "  %y1 = MatMul(%weights, %key_next)\n"
             "  %y = Add(%y0, %y1)")}) {
    std::string shifted = text;  // one more output in front moves the states'
    if (text.find("s = %scores, y") != std::string::npos) {
      shifted.replace(shifted.find("output 1"), 8, "output 2");
      shifted.replace(shifted.rfind("output 2 -> input 5"), 8, "output 3");
    }
    Context context = context_of(codegen::cpu_target().traits(), DType::kFloat8E4M3FN);
    context.weights.calibration = samples_of_rows();
    run_pass("quantize_caches", ir::parse_graph(shifted), context);
    EXPECT_TRUE(context.precision_notes.empty()) << text;
  }
}

// Rows of e4m3 try eight scales, which is many operators for as many kernels as integers have.
TEST(CachePrecisions, BothTypesTakeAsManyKernels) {
  for (const TargetTraits& target :
       {codegen::cpu_target().traits(), codegen::cuda_target().traits()}) {
    std::vector<std::size_t> kernels;
    for (const DType type : {DType::kFloat8E4M3FN, DType::kInt8}) {
      Context context = context_of(target, type);
      kernels.push_back(run_checked(ir::parse_graph(kMaskedDecoder), context).graph.nodes().size());
    }
    EXPECT_EQ(kernels[0], kernels[1]);
  }
}

/// A layer of a decoder of many sequences: queries, keys and values of one product, and its caches.
constexpr const char* kServed = R"(
graph @main(%ids: i64[1, s], %position: i64[1], %k: f16[1, 2, length, 16], %v: f16[1, 2, length, 16])
    ranges {length: 1..64, s: 1..64} states {output 1 -> input 2, output 2 -> input 3} {
  %table = Iota() {axis = 1, dtype = f16, shape = [4096, 64]}
  %w = Iota() {axis = 0, dtype = f16, shape = [64, 128]}
  %back = Iota() {axis = 1, dtype = f16, shape = [64, 4096]}
  %x = Gather(%table, %ids) {axis = 0}
  %all = MatMul(%x, %w)
  %q0 = Slice(%all) {starts = [0, 0, 0], steps = [1, 1, 1], shape = [1, s, 64]}
  %q1 = Sin(%q0)
  %q2 = Reshape(%q1) {shape = [1, s, 4, 16]}
  %q = Transpose(%q2) {perm = [0, 2, 1, 3]}
  %r0 = Slice(%all) {starts = [0, 0, 64], steps = [1, 1, 1], shape = [1, s, 32]}
  %r1 = Sin(%r0)
  %r2 = Reshape(%r1) {shape = [1, s, 2, 16]}
  %r = Transpose(%r2) {perm = [0, 2, 1, 3]}
  %u0 = Slice(%all) {starts = [0, 0, 96], steps = [1, 1, 1], shape = [1, s, 32]}
  %u2 = Reshape(%u0) {shape = [1, s, 2, 16]}
  %u = Transpose(%u2) {perm = [0, 2, 1, 3]}
  %i0 = Iota() {axis = 0, dtype = i64, shape = [1, 1, 1, 1]}
  %i1 = Iota() {axis = 1, dtype = i64, shape = [1, 2, 1, 1]}
  %n = Iota() {axis = 2, dtype = i64, shape = [1, 1, s, 1]}
  %i2 = Add(%n, %position)
  %i3 = Iota() {axis = 3, dtype = i64, shape = [1, 1, 1, 16]}
  %k1 = Scatter(%k, %r, %i0, %i1, %i2, %i3) {combine = "none"}
  %v1 = Scatter(%v, %u, %i0, %i1, %i2, %i3) {combine = "none"}
  %m = Reshape(%i2) {shape = [s, 1]}
  %one = const i64[] {1}
  %limits = Add(%m, %one)
  %kg = Reshape(%k1) {shape = [1, 2, 1, length, 16]}
  %ke = Expand(%kg) {shape = [1, 2, 2, length, 16]}
  %kh = Reshape(%ke) {shape = [1, 4, length, 16]}
  %vg = Reshape(%v1) {shape = [1, 2, 1, length, 16]}
  %ve = Expand(%vg) {shape = [1, 2, 2, length, 16]}
  %vh = Reshape(%ve) {shape = [1, 4, length, 16]}
  %y = Attention(%q, %kh, %vh, %limits) {scale = 0.25, limited = 1, guard = 2}
  %t = Transpose(%y) {perm = [0, 2, 1, 3]}
  %rows = Reshape(%t) {shape = [1, s, 64]}
  %last = const i64[] {-1}
  %row = Gather(%rows, %last) {axis = 1}
  %logits = MatMul(%row, %back)
  return logits = %logits, k1 = %k1, v1 = %v1
})";

// Where rows and scales go is said by indices, as where rows of 16 bits go: one kernel makes them
// and puts them there.
TEST(CachePrecisions, RowsOf8BitsOfManySequencesTakeNoMoreKernels) {
  const auto kernels = [](std::optional<DType> type) {
    Context context;
    context.target = codegen::cuda_target().traits();
    context.states.cache_type = type;
    context.paging.emplace();
    const Graph graph = run_checked(ir::parse_graph(kServed), context).graph;
    expect_fused(graph);
    return std::ranges::count_if(graph.nodes(),
                                 [](const Node& node) { return node.op->kind == OpKind::kFused; });
  };
  const auto floats = kernels(std::nullopt);
  EXPECT_EQ(kernels(DType::kFloat8E4M3FN), floats);
  EXPECT_EQ(kernels(DType::kInt8), floats);
}

std::string refusal(std::string text, const std::string& what, const std::string& with) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  text.replace(at, what.size(), with);
  Context context = context_of(codegen::cpu_target().traits(), DType::kInt8);
  try {
    run_pass("quantize_caches", ir::parse_graph(text), context);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    return error.what();
  }
  return "no error";
}

TEST(CachePrecisions, CachesWithoutRowsAreRefusedByName) {
  EXPECT_THAT(refusal(kDecoder, "states {output 1 -> input 4, output 2 -> input 5}", ""),
              HasSubstr("no cache that it changes in place (its states: none)"));
  EXPECT_THAT(refusal(kDecoder, "%rows, %i3) {combine = \"none\"}\n  %value_next",
                      "%rows, %i0) {combine = \"none\"}\n  %value_next"),
              testing::AllOf(HasSubstr("'key' cannot be stored in rows of i8"),
                             HasSubstr("puts parts of rows into it")));
}

}  // namespace
}  // namespace sinter::fusion::test
