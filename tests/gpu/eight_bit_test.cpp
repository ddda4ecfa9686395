// Products of operands of 8 bits with schedules of every kind, each forced, and by the library,
// against the reference.
#include <algorithm>
#include <cmath>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "tests/gpu/support.h"

namespace sinter::gpu_test {
namespace {

bool is_float_name(const std::string& type) { return type.starts_with("f8"); }

/// Scales of rows and columns, a bias, GELU; `result`: f16, or what the operands are.
ir::Graph product_graph(const std::string& x, const std::string& w, int m, int n, int k,
                        const std::string& result) {
  std::string text = fmt::format(
      "graph @main(%x: {0}[{2}, {4}], %w: {1}[{3}, {4}], %rows: f32[{2}, 1], %columns: f32[{3}], "
      "%b: f32[{3}]) {{\n"
      "  %t = Transpose(%w) {{perm = [1, 0]}}\n  %p = MatMul(%x, %t)\n",
      x, w, m, n, k);
  if (result == "sums") return ir::parse_graph(text + "  return y = %p\n}");
  std::string sums = "p";
  if (!is_float_name(x)) text += "  %f = Cast(%p) {to = f32}\n", sums = "f";
  // Sums of operands of up to 127 deviate by some thousands.
  text += fmt::format(
      "  %k = const f32[] {{{}}}\n  %u = Mul(%{}, %k)\n  %r = Mul(%u, %rows)\n"
      "  %c = Mul(%r, %columns)\n  %a = Add(%c, %b)\n  %g = Gelu(%a)\n",
      is_float_name(x) ? 1.0 : 1.0 / 8192, sums);
  if (result == "i8")
    text +=
        "  %z = const f32[] {40}\n  %s = Mul(%g, %z)\n  %o = Round(%s)\n"
        "  %l = const f32[] {-128}\n  %h = const f32[] {127}\n  %i = Max(%o, %l)\n"
        "  %j = Min(%i, %h)\n  %y = Cast(%j) {to = i8}\n";
  else
    text += fmt::format("  %y = Cast(%g) {{to = {}}}\n", result);
  return ir::parse_graph(text + "  return y = %y\n}");
}

/// Integers of all the values that 8 bits have.
std::vector<ir::Tensor> full_inputs(const ir::Graph& graph) {
  std::vector<ir::Tensor> inputs = random_inputs(graph, {});
  std::mt19937_64 random(7);
  for (ir::Tensor& input : inputs) {
    if (input.dtype() != DType::kInt8 && input.dtype() != DType::kUInt8) continue;
    std::vector<std::byte> bytes(input.bytes().size());
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    input = ir::Tensor(input.dtype(), input.shape(), ir::Buffer::take(std::move(bytes)));
  }
  return inputs;
}

/// Of quantized results, which sums in another order may round otherwise, the largest difference in
/// steps and how many elements differ.
void expect_close(const ir::Graph& graph, const std::vector<ir::Tensor>& inputs,
                  const ir::Tensor& output) {
  ir::EvaluateOptions wide;
  wide.keep_wide = true;
  const ir::Tensor expected = ir::evaluate(graph, inputs, wide)[0];
  ASSERT_EQ(output.dtype(), expected.dtype());
  const auto found = output.to_doubles(), wanted = expected.to_doubles();
  std::size_t others = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    others += found[i] != wanted[i];
    const double step =
        is_integer(output.dtype()) ? 1 : std::max(std::abs(wanted[i]) / 8, 0x1p-9);
    ASSERT_LE(std::abs(found[i] - wanted[i]), step * 1.01) << "element " << i;
  }
  EXPECT_LE(static_cast<double>(others), 0.01 * static_cast<double>(found.size()) + 2);
}

/// Tensor cores add up 8-bit floats with fewer bits than float32 has.
constexpr double kSumsTolerance = 2e-3;

void check(const ir::Graph& graph, const std::string& schedule, std::size_t launches = 1) {
  SCOPED_TRACE(schedule);
  const auto inputs = full_inputs(graph);
  Session session(compile_with(graph, schedule));
  const auto outputs = run(session, graph, inputs);
  if (launches > 0) {
    EXPECT_EQ(session.launches(), launches);
  }
  const DType type = outputs[0].dtype();
  if (type == DType::kInt32 || type == DType::kFloat16 || type == DType::kFloat32)
    expect_reference(graph, inputs, outputs,
                     type == DType::kFloat16 ? tolerance_of(type) : kSumsTolerance);
  else
    expect_close(graph, inputs, outputs[0]);
  for (int repeat = 0; repeat < 2; ++repeat) expect_same_bits(run(session, graph, inputs), outputs);
}

struct Types {
  const char *x, *w;
};
constexpr Types kIntegers[] = {{"i8", "i8"}, {"u8", "i8"}, {"i8", "u8"}, {"u8", "u8"}};
constexpr Types kFloats[] = {{"f8e4m3fn", "f8e4m3fn"},
                             {"f8e5m2", "f8e4m3fn"},
                             {"f8e4m3fn", "f8e5m2"},
                             {"f8e5m2", "f8e5m2"}};
/// Rows, columns and k that fill no tile.
constexpr int kSizes[][3] = {{70, 72, 272}, {197, 264, 1040}, {300, 136, 656}};

bool has_float8() { return architecture() != "sm_80" && architecture() != "sm_86"; }

void check_all(const std::string& schedule) {
  for (const auto& [m, n, k] : kSizes) {
    for (const Types& types : kIntegers) {
      SCOPED_TRACE(fmt::format("{} {} {}x{}x{}", types.x, types.w, m, n, k));
      check(product_graph(types.x, types.w, m, n, k, "sums"), schedule);
      check(product_graph(types.x, types.w, m, n, k, "i8"), schedule);
    }
    if (!has_float8()) continue;
    for (const Types& types : kFloats) {
      SCOPED_TRACE(fmt::format("{} {} {}x{}x{}", types.x, types.w, m, n, k));
      check(product_graph(types.x, types.w, m, n, k, "sums"), schedule);
      check(product_graph(types.x, types.w, m, n, k, "f8e4m3fn"), schedule);
      check(product_graph(types.x, types.w, m, n, k, "f16"), schedule);
    }
  }
}

TEST(EightBit, ByWarps) {
  for (const char* tile :
       {"16x32x256 warps=1x1x4 stages=4", "64x64x128 warps=2x2x1 stages=3",
        "128x128x64 warps=2x2x1 stages=4"})
    for (const int splits : {1, 2})
      check_all(fmt::format("warp_tile {} split_k={} cluster_n=1", tile, splits));
}

TEST(EightBit, ByWarpsOfAnyAlignmentAndOrder) {
  const std::string schedule = "warp_tile 64x64x128 warps=2x2x1 stages=3 split_k=1 cluster_n=1";
  for (const auto& [n, k] : {std::pair(36, 68), std::pair(34, 66), std::pair(37, 45)})
    check(product_graph("u8", "i8", 33, n, k, "sums"), schedule);
  const ir::Graph by_rows = ir::parse_graph(
      "graph @main(%x: i8[50, 300], %w: i8[300, 88]) {\n  %p = MatMul(%x, %w)\n"
      "  return y = %p\n}");
  check(by_rows, schedule);
}

class EightBitGroups : public ::testing::Test {
 protected:
  void SetUp() override {
    if (architecture() != "sm_90") GTEST_SKIP() << "no warpgroups on " << architecture();
  }
};

TEST_F(EightBitGroups, ByTma) {
  for (const char* tile : {"64x64x128 warpgroups=1 stages=4", "64x96x128 warpgroups=1 stages=3",
                           "128x128x128 warpgroups=2 stages=4", "128x192x128 warpgroups=2 stages=4",
                           "128x256x128 warpgroups=2 stages=3"})
    for (const int splits : {1, 3})
      check_all(fmt::format("tma {} split_k={} cluster_n=1", tile, splits));
}

TEST_F(EightBitGroups, InTurns) {
  for (const char* tile : {"128x128x128 consumers=2 warpgroups=1 stages=6",
                           "128x192x128 consumers=2 warpgroups=1 stages=5",
                           "128x192x128 consumers=1 warpgroups=2 stages=5"})
    for (const char* passes : {"rolled", "spread"})
      for (const int blocks : {1, 132})
        check_all(fmt::format("pingpong {} blocks={} passes={} split_k=1 cluster_n=1", tile, blocks,
                              passes));
}

TEST_F(EightBitGroups, PromotedToFloat32) {
  for (const Types& types : kFloats)
    for (const auto& [m, n, k] : kSizes)
      for (const char* schedule :
           {"tma 64x64x128 warpgroups=1 stages=4 promote=128 split_k=2 cluster_n=1",
            "tma 128x192x128 warpgroups=2 stages=4 promote=128 split_k=1 cluster_n=1",
            "pingpong 128x192x128 consumers=1 warpgroups=2 stages=5 blocks=132 passes=spread "
            "promote=128 split_k=1 cluster_n=1",
            "pingpong 64x192x128 consumers=2 warpgroups=1 stages=5 blocks=3 passes=spread "
            "promote=128 split_k=1 cluster_n=1"}) {
        SCOPED_TRACE(fmt::format("{} {} {}x{}x{}", types.x, types.w, m, n, k));
        check(product_graph(types.x, types.w, m, n, k, "sums"), schedule);
        check(product_graph(types.x, types.w, m, n, k, "f8e4m3fn"), schedule);
      }
}

TEST(EightBit, ByTheLibraryAndAsSessionsChoose) {
  for (const char* way : {"library", ""}) {
    check(product_graph("i8", "i8", 208, 272, 1040, "i8"), way, 0);
    check(product_graph("u8", "i8", 208, 272, 1040, "i8"), "", 0);
    if (!has_float8()) continue;
    check(product_graph("f8e4m3fn", "f8e4m3fn", 208, 272, 1040, "f16"), way, 0);
    check(product_graph("f8e5m2", "f8e4m3fn", 208, 272, 1040, "f8e4m3fn"), way, 0);
    check(product_graph("f8e5m2", "f8e5m2", 208, 272, 1040, "f16"), "", 0);
  }
}

// Weights that are constants, as models have them: the compiler lays them out.
TEST(EightBit, ConstantWeightsByColumns) {
  const ir::Graph graph = ir::parse_graph(
      "graph @main(%x: i8[300, 512]) {\n  %w = const i8[512, 384] random(3)\n"
      "  %p = MatMul(%x, %w)\n  %f = Cast(%p) {to = f32}\n  %k = const f32[] {0.0001}\n"
      "  %s = Mul(%f, %k)\n  return y = %s\n}");
  check(graph, "");
}

}  // namespace
}  // namespace sinter::gpu_test
