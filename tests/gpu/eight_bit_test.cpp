// SPDX-License-Identifier: Apache-2.0
// Products of operands of 8 bits with schedules of every kind, each forced, and by the library,
// against the reference. The products of one size are one graph: their kernels compile side by
// side.
#include <algorithm>
#include <cmath>
#include <random>
#include <span>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "tests/gpu/support.h"

namespace sinter::gpu_test {
namespace {

/// A product of [m, k] and weights stored as [n, k]: the sums themselves, or with scales of rows
/// and columns, a bias and GELU in another type.
struct Product {
  const char *x, *w, *result;
};
constexpr Product kProducts[] = {
    {"i8", "i8", "sums"},
    {"i8", "i8", "i8"},
    {"u8", "i8", "sums"},
    {"u8", "i8", "i8"},
    {"i8", "u8", "f16"},
    {"u8", "u8", "sums"},
    {"f8e4m3fn", "f8e4m3fn", "sums"},
    {"f8e4m3fn", "f8e4m3fn", "f8e4m3fn"},
    {"f8e4m3fn", "f8e4m3fn", "f16"},
    {"f8e5m2", "f8e4m3fn", "f8e4m3fn"},
    {"f8e4m3fn", "f8e5m2", "f16"},
    {"f8e5m2", "f8e5m2", "sums"},
};
constexpr std::span<const Product> kAll(kProducts), kIntegers = kAll.first(6),
                                                    kFloats = kAll.subspan(6);

struct Size {
  int m, n, k;
};
constexpr Size kSmall = {70, 72, 272}, kLarge = {300, 264, 1040};

bool has_float8() { return architecture() != "sm_80" && architecture() != "sm_86"; }
std::span<const Product> all_products() { return has_float8() ? kAll : kIntegers; }

ir::Graph products_graph(std::span<const Product> products, const Size& size) {
  const auto& [m, n, k] = size;
  std::string inputs = fmt::format("%rows: f32[{}, 1], %columns: f32[{}], %b: f32[{}]", m, n, n);
  std::string body, outputs;
  for (std::size_t i = 0; i < products.size(); ++i) {
    const auto& [x, w, result] = products[i];
    const bool is_float = *x == 'f';
    inputs += fmt::format(", %x{0}: {1}[{3}, {5}], %w{0}: {2}[{4}, {5}]", i, x, w, m, n, k);
    body += fmt::format(
        "  %t{0} = Transpose(%w{0}) {{perm = [1, 0]}}\n  %p{0} = MatMul(%x{0}, %t{0})\n", i);
    std::string last = fmt::format("p{}", i);
    if (result != std::string("sums")) {
      if (!is_float) body += fmt::format("  %f{0} = Cast(%p{0}) {{to = f32}}\n", i);
      // Sums of integers deviate by some hundred thousands.
      body += fmt::format(
          "  %k{0} = const f32[] {{{1}}}\n  %u{0} = Mul(%{2}{0}, %k{0})\n"
          "  %r{0} = Mul(%u{0}, %rows)\n  %c{0} = Mul(%r{0}, %columns)\n"
          "  %a{0} = Add(%c{0}, %b)\n  %g{0} = Gelu(%a{0})\n",
          i, is_float ? 1.0 : 1.0 / 65536, is_float ? "p" : "f");
      if (result == std::string("i8"))
        body += fmt::format(
            "  %z{0} = const f32[] {{40}}\n  %s{0} = Mul(%g{0}, %z{0})\n  %o{0} = Round(%s{0})\n"
            "  %l{0} = const f32[] {{-128}}\n  %h{0} = const f32[] {{127}}\n"
            "  %i{0} = Max(%o{0}, %l{0})\n  %j{0} = Min(%i{0}, %h{0})\n"
            "  %y{0} = Cast(%j{0}) {{to = i8}}\n",
            i);
      else
        body += fmt::format("  %y{0} = Cast(%g{0}) {{to = {1}}}\n", i, result);
      last = fmt::format("y{}", i);
    }
    outputs += fmt::format("{}y{} = %{}", i == 0 ? "" : ", ", i, last);
  }
  return ir::parse_graph(
      fmt::format("graph @main({}) {{\n{}  return {}\n}}", inputs, body, outputs));
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

/// Integers of 32 bits are exact. Sums in another order may round another way: of what is quantized
/// few elements differ, by a step. Tensor cores add up 8-bit floats with fewer bits than float32
/// has.
void expect_close(const ir::Tensor& output, const ir::Tensor& expected) {
  constexpr double kSums = 2e-3;
  ASSERT_EQ(output.dtype(), expected.dtype());
  if (size_of(output.dtype()) > 1) {
    const double tolerance =
        output.dtype() == DType::kFloat16 ? tolerance_of(DType::kFloat16) : kSums;
    EXPECT_LE(relative_error(output, expected), tolerance);
    return;
  }
  const auto found = output.to_doubles(), wanted = expected.to_doubles();
  std::size_t others = 0;
  double largest = 0;
  for (const double value : wanted) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < found.size(); ++i) {
    others += found[i] != wanted[i];
    // Where sums are not promoted, what is small beside the others is off by more than a step.
    const double step = is_integer(output.dtype())
                            ? 1
                            : std::max(std::abs(wanted[i]) / 8, 0x1p-9) + kSums * largest;
    ASSERT_LE(std::abs(found[i] - wanted[i]), step * 1.01) << "element " << i;
  }
  EXPECT_LE(static_cast<double>(others), 0.01 * static_cast<double>(found.size()) + 2);
}

void check(const ir::Graph& graph, const std::string& schedule, bool one_launch_each = true) {
  SCOPED_TRACE(schedule);
  const auto inputs = full_inputs(graph);
  Session session(compile_with(graph, schedule));
  const auto outputs = run(session, graph, inputs);
  if (one_launch_each) {
    EXPECT_EQ(session.launches(), graph.outputs().size());
  }
  ir::EvaluateOptions wide;
  wide.keep_wide = true;
  const auto expected = ir::evaluate(graph, inputs, wide);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    SCOPED_TRACE(graph.output_names()[i]);
    expect_close(outputs[i], expected[i]);
  }
  for (int repeat = 0; repeat < 2; ++repeat) expect_same_bits(run(session, graph, inputs), outputs);
}

TEST(EightBit, ByWarps) {
  int splits = 1;
  for (const char* tile : {"16x32x256 warps=1x1x4 stages=4", "64x64x128 warps=2x2x1 stages=3",
                           "128x128x64 warps=2x2x1 stages=4"})
    for (const Size& size : {kSmall, kLarge}) {
      check(products_graph(all_products(), size),
            fmt::format("warp_tile {} split_k={} cluster_n=1", tile, splits));
      if (architecture() >= std::string("sm_90")) splits = 3 - splits;
    }
}

TEST(EightBit, ByWarpsOfAnyAlignmentAndOrder) {
  const std::string schedule = "warp_tile 64x64x128 warps=2x2x1 stages=3 split_k=1 cluster_n=1";
  for (const Size& size : {Size{33, 36, 68}, Size{33, 34, 66}, Size{19, 37, 45}})
    check(products_graph(all_products(), size), schedule);
  check(ir::parse_graph("graph @main(%x: i8[50, 300], %w: i8[300, 88]) {\n"
                        "  %p = MatMul(%x, %w)\n  return y = %p\n}"),
        schedule);
}

class EightBitGroups : public WarpgroupTest {};

TEST_F(EightBitGroups, ByTma) {
  int splits = 1;
  for (const char* tile : {"64x64x128 warpgroups=1 stages=4", "64x96x128 warpgroups=1 stages=3",
                           "128x128x128 warpgroups=2 stages=4", "128x192x128 warpgroups=2 stages=4",
                           "128x256x128 warpgroups=2 stages=3"})
    for (const Size& size : {kSmall, kLarge}) {
      check(products_graph(kAll, size), fmt::format("tma {} split_k={} cluster_n=1", tile, splits));
      splits = 4 - splits;
    }
}

TEST_F(EightBitGroups, InTurns) {
  int blocks = 1;
  for (const char* tile : {"128x128x128 consumers=2 warpgroups=1 stages=6",
                           "128x192x128 consumers=2 warpgroups=1 stages=5",
                           "128x192x128 consumers=1 warpgroups=2 stages=5"})
    for (const char* passes : {"rolled", "spread"}) {
      check(products_graph(kAll, kLarge),
            fmt::format("pingpong {} blocks={} passes={} split_k=1 cluster_n=1", tile, blocks,
                        passes));
      blocks = 133 - blocks;
    }
}

/// Rows sorted by group, with a scale for each row and one for each column of each group.
TEST_F(EightBitGroups, RowsSortedByGroup) {
  for (const Size& size : {kSmall, kLarge}) {
    const auto& [m, n, k] = size;
    const ir::Graph graph = ir::parse_graph(
        fmt::format("graph @main(%x: f8e4m3fn[{0}, {2}], %w: f8e4m3fn[5, {1}, {2}], %rows: "
                    "f32[{0}, 1], %scales: "
                    "f32[5, {1}]) {{\n"
                    "  %o = const i32[6] {{0, 3, 3, 40, 41, {3}}}\n"
                    "  %i = Iota() {{shape = [{0}], axis = 0, dtype = i32}}\n"
                    "  %five = const i32[] {{5}}\n  %g = Mod(%i, %five)\n"
                    "  %p = GroupedMatMul(%x, %w, %o) {{transposed = 1}}\n  %a = Mul(%p, %rows)\n"
                    "  %c = Gather(%scales, %g) {{axis = 0}}\n  %s = Mul(%a, %c)\n"
                    "  %y = Cast(%s) {{to = f16}}\n  return y = %y\n}}",
                    m, n, k, m - 2));
    for (const char* schedule :
         {"warp_tile 32x32x128 warps=2x2x1 stages=3 split_k=1 cluster_n=1",
          "tma 64x64x128 warpgroups=1 stages=4 split_k=1 cluster_n=1",
          "pingpong 128x128x128 consumers=2 warpgroups=1 stages=5 blocks=132 passes=spread "
          "split_k=1 cluster_n=1"})
      check(graph, schedule, false);
  }
}

TEST_F(EightBitGroups, PromotedToFloat32) {
  for (const Size& size : {kSmall, kLarge})
    for (const char* schedule :
         {"tma 64x64x128 warpgroups=1 stages=4 promote=128 split_k=2 cluster_n=1",
          "tma 128x192x128 warpgroups=2 stages=4 promote=512 split_k=1 cluster_n=1",
          "pingpong 128x192x128 consumers=1 warpgroups=2 stages=5 blocks=132 passes=spread "
          "promote=128 split_k=1 cluster_n=1",
          "pingpong 128x128x128 consumers=1 warpgroups=2 stages=6 blocks=2 passes=rolled "
          "promote=256 split_k=1 cluster_n=1",
          "pingpong 64x192x128 consumers=2 warpgroups=1 stages=5 blocks=3 passes=spread "
          "promote=128 split_k=1 cluster_n=1",
          "pingpong 128x256x128 consumers=1 warpgroups=2 stages=4 blocks=132 passes=spread "
          "promote=256 split_k=1 cluster_n=1",
          "tma 128x256x128 warpgroups=2 stages=4 promote=256 split_k=1 cluster_n=1"})
      check(products_graph(kFloats, size), schedule);
}

// Two blocks share the copies of the right operand, over many tiles and over fewer than blocks.
TEST_F(EightBitGroups, WithSharedCopies) {
  for (const Size& size : {kSmall, kLarge, Size{1000, 776, 1040}})
    for (const char* tile :
         {"128x128x128 consumers=2 warpgroups=1 stages=6 blocks=132 passes=spread",
          "128x128x128 consumers=2 warpgroups=2 stages=7 blocks=4 passes=spread",
          "128x192x128 consumers=1 warpgroups=2 stages=4 blocks=2 passes=rolled"})
      check(products_graph(kAll, size),
            fmt::format("pingpong {} multicast=2 split_k=1 cluster_n=1", tile));
  for (const Size& size : {kLarge, Size{1000, 776, 1040}})
    for (const char* tile :
         {"128x256x128 consumers=1 warpgroups=2 stages=4 blocks=6 passes=spread promote=256",
          "128x192x128 consumers=1 warpgroups=2 stages=5 blocks=132 passes=spread promote=512"})
      check(products_graph(kFloats, size),
            fmt::format("pingpong {} multicast=2 split_k=1 cluster_n=1", tile));
}

// Widths that are no multiples of 64, and three warpgroups for a tile.
TEST_F(EightBitGroups, OfOtherWidths) {
  for (const Size& size : {kSmall, kLarge, Size{1000, 776, 1040}}) {
    for (const char* tile : {"64x160x128 consumers=2 warpgroups=1 stages=8",
                             "128x160x128 consumers=2 warpgroups=1 stages=5",
                             "192x96x128 consumers=2 warpgroups=1 stages=5",
                             "128x224x128 consumers=1 warpgroups=2 stages=5"})
      check(products_graph(kAll, size),
            fmt::format("pingpong {} blocks=132 passes=spread split_k=1 cluster_n=1", tile));
    for (const char* tile :
         {"64x160x128 consumers=2 warpgroups=1 stages=8 blocks=132 passes=spread promote=512",
          "128x160x128 consumers=1 warpgroups=2 stages=5 blocks=5 passes=rolled promote=512",
          "128x224x128 consumers=1 warpgroups=2 stages=5 blocks=132 passes=spread promote=256",
          "192x96x128 consumers=1 warpgroups=3 stages=6 blocks=3 passes=spread promote=512",
          "192x96x128 consumers=1 warpgroups=3 stages=5 blocks=132 passes=spread promote=512 "
          "multicast=2"})
      check(products_graph(kFloats, size), fmt::format("pingpong {} split_k=1 cluster_n=1", tile));
  }
}

// Two blocks have a tile, each half of k.
TEST_F(EightBitGroups, OfHalvesOfK) {
  for (const Size& size : {kSmall, kLarge, Size{1000, 776, 1040}}) {
    for (const char* tile :
         {"64x128x128 consumers=2 warpgroups=1 stages=6 blocks=132 passes=spread",
          "128x128x128 consumers=1 warpgroups=2 stages=5 blocks=6 passes=rolled",
          "256x128x128 consumers=1 warpgroups=2 stages=2 blocks=2 passes=spread"})
      check(products_graph(kAll, size), fmt::format("pingpong {} split_k=2 cluster_n=1", tile));
    for (const char* tile :
         {"64x128x128 consumers=2 warpgroups=1 stages=6 blocks=132 passes=spread promote=512",
          "128x128x128 consumers=1 warpgroups=2 stages=5 blocks=4 passes=spread promote=512",
          "128x192x128 consumers=1 warpgroups=2 stages=2 blocks=132 passes=rolled promote=512"})
      check(products_graph(kFloats, size), fmt::format("pingpong {} split_k=2 cluster_n=1", tile));
  }
}

// Four warpgroups, two for each tile.
TEST_F(EightBitGroups, InTurnsOfTwoEach) {
  for (const char* passes : {"rolled", "spread"})
    check(products_graph(kAll, kLarge),
          fmt::format("pingpong 128x128x128 consumers=2 warpgroups=2 stages=5 blocks=3 passes={} "
                      "split_k=1 cluster_n=1",
                      passes));
}

// Scales of blocks of 128 of k, of rows and of 128 columns.
TEST_F(EightBitGroups, WithScalesOfBlocks) {
  for (const char* types : {"f8e4m3fn f8e4m3fn f16", "f8e5m2 f8e4m3fn f32"}) {
    const std::string text = types, x = text.substr(0, text.find(' ')),
                      w = text.substr(text.find(' ') + 1, text.rfind(' ') - text.find(' ') - 1),
                      y = text.substr(text.rfind(' ') + 1);
    for (const Size& size : {Size{70, 72, 256}, Size{300, 264, 1024}}) {
      const auto& [m, n, k] = size;
      const ir::Graph graph = ir::parse_graph(fmt::format(
          "graph @main(%x: {0}[{3}, {5}], %w: {1}[{4}, {5}], %s: f32[{3}, {6}], %t: f32[{7}, {6}]) "
          "{{\n  %p = MatMul(%x, %w, %s, %t) {{x = \"{0} * f32 group 128\", "
          "w = \"{1} * f32 block 128x128\"}}\n"
          "  %y = Cast(%p) {{to = {2}}}\n  return y = %y\n}}",
          x, w, y, m, n, k, k / 128, (n + 127) / 128));
      for (const char* schedule :
           {"", "warp_tile 64x64x128 warps=2x2x1 stages=3 split_k=1 cluster_n=1",
            "tma 64x64x128 warpgroups=1 stages=4 promote=128 split_k=2 cluster_n=1",
            "tma 128x128x128 warpgroups=2 stages=4 promote=128 split_k=1 cluster_n=1",
            "pingpong 128x128x128 consumers=1 warpgroups=2 stages=6 blocks=3 passes=spread "
            "promote=128 split_k=1 cluster_n=1",
            "pingpong 128x256x128 consumers=1 warpgroups=2 stages=4 blocks=132 passes=spread "
            "promote=128 multicast=2 split_k=1 cluster_n=1"})
        check(graph, schedule);
    }
  }
}

TEST(EightBit, ByTheLibraryAndAsSessionsChoose) {
  for (const char* way : {"library", ""})
    check(products_graph(all_products(), {208, 272, 1040}), way, false);
}

// Weights that are constants, as models have them: the compiler lays them out.
TEST(EightBit, ConstantWeightsByColumns) {
  check(ir::parse_graph("graph @main(%x: i8[300, 512]) {\n  %w = const i8[512, 384] random(3)\n"
                        "  %p = MatMul(%x, %w)\n  %f = Cast(%p) {to = f32}\n"
                        "  %k = const f32[] {0.0001}\n  %s = Mul(%f, %k)\n  return y = %s\n}"),
        "");
}

/// Queries, keys and values of one activation of `type`, with scales of columns and biases, and
/// what attention makes of them in `type`.
ir::Graph attention_graph(const std::string& type) {
  const bool is_float = type[0] == 'f';
  std::string body = fmt::format("  %k = const f32[] {{{}}}\n", is_float ? "0.02" : "0.000004");
  for (int i = 0; i < 3; ++i) {
    body += fmt::format(
        "  %w{0} = const {1}[256, 256] random({2})\n  %p{0} = MatMul(%x, %w{0})\n"
        "  %c{0} = const f32[256] random({3})\n  %b{0} = const f32[256] random({4})\n",
        i, type, i + 1, i + 4, i + 7);
    if (!is_float) body += fmt::format("  %f{0} = Cast(%p{0}) {{to = f32}}\n", i);
    body += fmt::format(
        "  %s{0} = Mul(%{1}{0}, %k)\n  %t{0} = Mul(%s{0}, %c{0})\n  %a{0} = Add(%t{0}, %b{0})\n"
        "  %h{0} = Cast(%a{0}) {{to = f16}}\n"
        "  %r{0} = Reshape(%h{0}) {{shape = [2, 100, 4, 64]}}\n"
        "  %v{0} = Transpose(%r{0}) {{perm = [0, 2, 1, 3]}}\n",
        i, is_float ? "p" : "f");
  }
  body +=
      "  %y = Attention(%v0, %v1, %v2) {scale = 0.125}\n  %z = Transpose(%y) {perm = [0, 2, 1, "
      "3]}\n"
      "  %step = const f16[] {0.02}\n  %d = Quotient(%z, %step)\n";
  if (!is_float) body += "  %n = Round(%d)\n";
  body += fmt::format("  %e = Cast(%{}) {{to = {}}}\n", is_float ? "d" : "n", type) +
          "  %o = Reshape(%e) {shape = [2, 100, 256]}\n";
  return ir::parse_graph(
      fmt::format("graph @main(%x: {}[2, 100, 256]) {{\n{}  return o = %o\n}}", type, body));
}

// Two kernels: one product of all columns, and the attention that rounds what it stores.
TEST(EightBit, AttentionBehindItsProjections) {
  for (const char* type : {"f8e4m3fn", "i8"}) {
    if (*type == 'f' && !has_float8()) continue;
    SCOPED_TRACE(type);
    const ir::Graph graph = attention_graph(type);
    const auto inputs = full_inputs(graph);
    Session session(compile_with(graph, ""));
    const auto outputs = run(session, graph, inputs);
    EXPECT_EQ(session.launches(), 2u);
    ir::EvaluateOptions wide;
    wide.keep_wide = true;
    const ir::Tensor expected = ir::evaluate(graph, inputs, wide)[0];
    ASSERT_EQ(outputs[0].dtype(), expected.dtype());
    const auto found = outputs[0].to_doubles(), wanted = expected.to_doubles();
    // Weights and operands are rounded to 16 bits in between, half a unit of values up to 4.
    constexpr double kTolerance = 4e-3 / 0.02;
    std::size_t others = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      others += found[i] != wanted[i];
      const double step = *type == 'f' ? std::max(std::abs(wanted[i]) / 8, 0x1p-9) : 1;
      ASSERT_LE(std::abs(found[i] - wanted[i]), step * 1.01 + kTolerance) << "element " << i;
    }
    EXPECT_LE(static_cast<double>(others), 0.1 * static_cast<double>(found.size()));
    expect_same_bits(run(session, graph, inputs), outputs);
  }
}

/// Queries, keys and values of 16 bits, rounded to e4m3 with one scale in front of attention, as
/// --attention-precision fp8 makes it.
struct RoundedAttention {
  int rows, keys, head;
  const char* mask = "";   // its type and shape
  const char* attrs = "";  // beside the scale
};

ir::Graph rounded_attention(const RoundedAttention& test) {
  const int columns = (test.keys + 15) / 16 * 16;
  const bool has_mask = *test.mask != 0;
  std::string inputs, body = "  %scale = const f32[] {0.002}\n";
  for (const auto& [name, rows] : {std::pair("q", test.rows), {"k", test.keys}, {"v", test.keys}}) {
    inputs += fmt::format("%{}: f16[2, {}, 3, {}], ", name, rows, test.head);
    body += fmt::format(
        "  %{0}w = Cast(%{0}) {{to = f32}}\n  %{0}d = Quotient(%{0}w, %scale)\n"
        "  %{0}c = Cast(%{0}d) {{to = f8e4m3fn}}\n"
        "  %{0}h = Transpose(%{0}c) {{perm = [0, 2, 1, 3]}}\n",
        name);
  }
  inputs.resize(inputs.size() - 2);
  if (has_mask) inputs += fmt::format(", %mask: {}", test.mask);
  return ir::parse_graph(fmt::format(
      "graph @main({0}) {{\n{1}"
      "  %vp = Pad(%vh) {{begins = [0, 0, 0, 0], ends = [0, 0, {2}, 0], fill = 0}}\n"
      "  %vt = Transpose(%vp) {{perm = [0, 1, 3, 2]}}\n"
      "  %s = Attention(%qh, %kh, %vt{3}) {{scale = {4}{5}}}\n"
      "  %m = Mul(%s, %scale)\n  %n = Cast(%m) {{to = f16}}\n"
      "  %y = Transpose(%n) {{perm = [0, 2, 1, 3]}}\n  return y = %y\n}}",
      inputs, body, columns - test.keys, has_mask ? ", %mask" : "", 0.000004 * 4, test.attrs));
}

using EightBitAttention = WarpgroupTest;

// Weights are rounded relative to the largest score so far, by the reference to the largest of all,
// and the hardware adds these scores up with 14 bits: some weights, which have four bits, are
// rounded the other way.
TEST_F(EightBitAttention, OfRoundedOperands) {
  for (const RoundedAttention& test : {RoundedAttention{100, 128, 64},
                                       {1, 17, 64},
                                       {300, 64, 128, "", ", causal = 1"},
                                       {200, 257, 80},
                                       {700, 700, 64, "", ", causal = 1"},
                                       {257, 257, 64, "bool[2, 1, 1, 257]", ", guard = 2"},
                                       {130, 500, 96, "f16[130, 500]"},
                                       {300, 1500, 64},
                                       {520, 2100, 128},
                                       {2100, 2100, 128, "", ", causal = 1"}}) {
    SCOPED_TRACE(
        fmt::format("{} x {} x {} {}{}", test.rows, test.keys, test.head, test.mask, test.attrs));
    const ir::Graph graph = rounded_attention(test);
    const auto inputs = random_inputs(graph, {});
    Session session(compile(graph, true));
    const auto outputs = run(session, graph, inputs);
    const ir::Tensor expected = ir::evaluate(graph, inputs)[0];
    EXPECT_LE(relative_error(outputs[0], expected), 8e-2);
    expect_same_bits(run(session, graph, inputs), outputs);
  }
}

}  // namespace
}  // namespace sinter::gpu_test
