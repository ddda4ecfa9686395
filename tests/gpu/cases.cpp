#include "tests/gpu/cases.h"

#include <regex>
#include <stdexcept>

#include "ir/text/text.h"

namespace sinter::gpu_test {
namespace {

std::string unary_text() {
  std::string text = "graph @main(%x: T[n]) ranges {n: 1..100000} {\n";
  std::string outputs;
  const auto add = [&](const std::string& op, const std::string& input) {
    text += "  %" + op + " = " + op + "(%" + input + ")\n";
    outputs += (outputs.empty() ? "" : ", ") + ("y_" + op) + " = %" + op;
  };
  text += "  %three = const T[] {3}\n  %half = const T[] {0.5}\n  %wide = Mul(%x, %three)\n";
  text += "  %abs = Abs(%wide)\n  %positive = Add(%abs, %half)\n";
  for (const char* op : {"Neg", "Abs", "Sign", "Floor", "Ceil", "Round", "Exp", "Erf", "Tanh",
                         "Sin", "Cos", "Sigmoid", "Relu", "Silu", "Gelu", "GeluTanh", "Square"})
    add(op, "x");
  for (const char* op : {"Sqrt", "Rsqrt", "Reciprocal", "Log"}) add(op, "positive");
  return text + "  return " + outputs + "\n}";
}

const std::vector<ir::Bindings> kVectorSizes = {
    {{"n", 1}}, {{"n", 7}}, {{"n", 1024}}, {{"n", 100000}}, {{"n", 8}}};
const std::vector<ir::Bindings> kBatchSizes = {{{"batch", 1}, {"seq", 64}},
                                               {{"batch", 3}, {"seq", 17}},
                                               {{"batch", 8}, {"seq", 128}},
                                               {{"batch", 1}, {"seq", 1}},
                                               {{"batch", 1}, {"seq", 64}}};

const std::vector<ir::Bindings> kRowSizes = {
    {{"rows", 64}}, {{"rows", 1}}, {{"rows", 197}}, {{"rows", 16}}, {{"rows", 1000}}};

std::vector<Case> make_cases() {
  return {
      {"unary", unary_text(), kVectorSizes},
      {"binary", R"(
graph @main(%x: T[n], %y: T[n]) ranges {n: 1..100000} {
  %two = const T[] {2}
  %p = Add(%y, %two)
  %a = Add(%x, %y)
  %s = Sub(%x, %y)
  %m = Mul(%x, %y)
  %d = Div(%x, %p)
  %w = Pow(%p, %x)
  %lo = Min(%x, %y)
  %hi = Max(%x, %y)
  return a = %a, s = %s, m = %m, d = %d, w = %w, lo = %lo, hi = %hi
})",
       kVectorSizes},
      {"logic", R"(
graph @main(%x: f32[n], %y: f32[n], %b: bool[n]) ranges {n: 1..100000} {
  %lt = Less(%x, %y)
  %ge = GreaterOrEqual(%x, %y)
  %both = And(%lt, %b)
  %one = Xor(%both, %ge)
  %not = Not(%one)
  %w = Where(%not, %x, %y)
  %f = Cast(%both) {to = f16}
  return lt = %lt, not = %not, w = %w, f = %f
})",
       kVectorSizes, false},
      {"integers", R"(
graph @main(%x: i64[n], %y: i32[n]) ranges {n: 1..100000} {
  %big = const i64[] {4294967296123}
  %seven = const i32[] {7}
  %p = Add(%x, %big)
  %wide = Cast(%y) {to = i64}
  %q = Mul(%p, %wide)
  %r = Mod(%y, %seven)
  %f = Cast(%x) {to = f32}
  return q = %q, r = %r, f = %f
})",
       kVectorSizes, false},
      {"broadcast", R"(
graph @main(%x: T[batch, seq, 48], %row: T[48], %col: T[batch, 1, 1], %cell: T[seq, 1])
  ranges {batch: 1..64, seq: 1..512} {
  %a = Mul(%x, %row)
  %b = Add(%a, %col)
  %c = Sub(%b, %cell)
  %y = Tanh(%c)
  return y = %y
})",
       kBatchSizes},
      {"transpose_and_slice", R"(
graph @main(%x: T[batch, seq, 6, 10]) ranges {batch: 1..64, seq: 1..512} {
  %t = Transpose(%x) {perm = [0, 2, 1, 3]}
  %two = const T[] {2}
  %m = Mul(%t, %two)
  %s = Slice(%x) {starts = [0, 0, 1, 9], steps = [1, 1, 2, -3], shape = [batch, seq, 3, 3]}
  %e = Exp(%s)
  return m = %m, e = %e
})",
       kBatchSizes},
      {"concat_and_pad", R"(
graph @main(%x: T[batch, seq, 5], %y: T[batch, seq, 3]) ranges {batch: 1..64, seq: 1..512} {
  %c = Concat(%x, %y) {axis = 2}
  %p = Pad(%c) {begins = [0, 1, 2], ends = [0, 2, 0], fill = 0.5}
  %r = Relu(%p)
  return r = %r
})",
       kBatchSizes},
      {"gather", R"(
graph @main(%table: T[100, 24], %ids: i64[batch, seq]) ranges {batch: 1..64, seq: 1..512} {
  %g = Gather(%table, %ids) {axis = 0}
  %two = const T[] {2}
  %y = Mul(%g, %two)
  return y = %y
})",
       kBatchSizes},
      {"reduce_rows", R"(
graph @main(%x: T[batch, seq, 384]) ranges {batch: 1..64, seq: 1..512} {
  %sum = ReduceSum(%x) {axes = [2], keepdims = 1}
  %mean = ReduceMean(%x) {axes = [2], keepdims = 0}
  %max = ReduceMax(%x) {axes = [2], keepdims = 0}
  %min = ReduceMin(%x) {axes = [2], keepdims = 0}
  %squares = ReduceSumSquare(%x) {axes = [2], keepdims = 0}
  return sum = %sum, mean = %mean, max = %max, min = %min, squares = %squares
})",
       kBatchSizes},
      {"reduce_other_axes", R"(
graph @main(%x: T[batch, seq, 40]) ranges {batch: 1..64, seq: 1..512} {
  %first = ReduceMean(%x) {axes = [0], keepdims = 0}
  %middle = ReduceMax(%x) {axes = [1], keepdims = 0}
  %outer = ReduceSum(%x) {axes = [0, 2], keepdims = 1}
  %all = ReduceMean(%x) {axes = [0, 1, 2], keepdims = 0}
  return first = %first, middle = %middle, outer = %outer, all = %all
})",
       kBatchSizes},
      // ptxas 13.0 loses negations in chains of integer maxima (codegen/device/math.cuh).
      {"negated_integers",
       R"(
graph @main(%x: i32[rows, 11], %y: i32[11, rows]) ranges {rows: 1..512} {
  %p = Neg(%x)
  %most = ReduceMax(%p) {axes = [1], keepdims = 1}
  %a = Sub(%p, %most)
  %q = Neg(%y)
  %least = ReduceMin(%q) {axes = [0], keepdims = 1}
  %b = Sub(%q, %least)
  return a = %a, b = %b
})",
       {{{"rows", 1}}, {{"rows", 2}}, {{"rows", 40}}},
       false},
      {"long_and_short_rows",
       R"(
graph @main(%x: T[rows, n]) ranges {rows: 1..10000, n: 1..100000} {
  %m = ReduceMean(%x) {axes = [1], keepdims = 1}
  %d = Sub(%x, %m)
  %s = ReduceMax(%d) {axes = [1], keepdims = 0}
  return d = %d, s = %s
})",
       {{{"rows", 1}, {"n", 100000}},
        {{"rows", 5}, {"n", 30001}},
        {{"rows", 3000}, {"n", 3}},
        {{"rows", 300}, {"n", 1}},
        {{"rows", 64}, {"n", 4096}}}},
      {"softmax", R"(
graph @main(%x: T[batch, 4, seq, seq]) ranges {batch: 1..64, seq: 1..512} {
  %y = Softmax(%x) {axis = 3}
  return y = %y
})",
       kBatchSizes},
      {"masked_softmax", R"(
graph @main(%x: T[batch, 4, seq, seq], %mask: bool[batch, 1, 1, seq])
  ranges {batch: 1..64, seq: 1..512} {
  %scale = const T[] {0.125}
  %low = const T[] {-10000}
  %s = Mul(%x, %scale)
  %w = Where(%mask, %s, %low)
  %y = Softmax(%w) {axis = 3}
  return y = %y
})",
       kBatchSizes},
      {"layer_norm", R"(
graph @main(%x: T[batch, seq, 384], %r: T[batch, seq, 384]) ranges {batch: 1..64, seq: 1..512} {
  %g = const T[384] random(1)
  %b = const T[384] random(2)
  %s = Add(%x, %r)
  %n = LayerNorm(%s, %g, %b) {axis = 2, epsilon = 1e-5}
  %y = Relu(%n)
  return y = %y, s = %s
})",
       kBatchSizes},
      {"rms_norm", R"(
graph @main(%x: T[batch, seq, 100]) ranges {batch: 1..64, seq: 1..512} {
  %g = const T[100] random(1)
  %n = RmsNorm(%x, %g) {axis = 2, epsilon = 1e-6}
  return y = %n
})",
       kBatchSizes},
      {"matmul", R"(
graph @main(%x: T[batch, seq, 64]) ranges {batch: 1..64, seq: 1..512} {
  %w = const T[64, 96] random(1)
  %y = MatMul(%x, %w)
  return y = %y
})",
       kBatchSizes},
      {"matmul_odd_sizes",
       R"(
graph @main(%x: T[seq, 13]) ranges {seq: 1..512} {
  %w = const T[13, 7] random(1)
  %v = const T[7, 1] random(2)
  %h = MatMul(%x, %w)
  %y = MatMul(%h, %v)
  return h = %h, y = %y
})",
       {{{"seq", 1}}, {{"seq", 3}}, {{"seq", 512}}}},
      {"matmul_bias", R"(
graph @main(%x: T[batch, seq, 64]) ranges {batch: 1..64, seq: 1..512} {
  %w = const T[64, 96] random(1)
  %b = const T[96] random(2)
  %p = MatMul(%x, %w)
  %y = Add(%p, %b)
  return y = %y
})",
       kBatchSizes},
      {"matmul_bias_relu", R"(
graph @main(%x: T[batch, seq, 64]) ranges {batch: 1..64, seq: 1..512} {
  %w = const T[64, 96] random(1)
  %b = const T[96] random(2)
  %p = MatMul(%x, %w)
  %s = Add(%p, %b)
  %y = Relu(%s)
  return y = %y
})",
       kBatchSizes},
      {"matmul_bias_gelu", R"(
graph @main(%x: T[batch, seq, 64]) ranges {batch: 1..64, seq: 1..512} {
  %w = const T[64, 96] random(1)
  %b = const T[96] random(2)
  %p = MatMul(%x, %w)
  %s = Add(%p, %b)
  %y = Gelu(%s)
  %t = GeluTanh(%s)
  return y = %y, t = %t
})",
       kBatchSizes},
      {"matmul_bias_gelu_tanh", R"(
graph @main(%x: T[batch, seq, 64]) ranges {batch: 1..64, seq: 1..512} {
  %w = const T[64, 96] random(1)
  %b = const T[96] random(2)
  %p = MatMul(%x, %w)
  %s = Add(%p, %b)
  %y = GeluTanh(%s)
  return y = %y
})",
       kBatchSizes},
      {"matmul_bias_residual", R"(
graph @main(%x: T[batch, seq, 64], %r: T[batch, seq, 96]) ranges {batch: 1..64, seq: 1..512} {
  %w = const T[64, 96] random(1)
  %b = const T[96] random(2)
  %p = MatMul(%x, %w)
  %s = Add(%p, %b)
  %y = Add(%s, %r)
  return y = %y
})",
       kBatchSizes},
      {"matmul_bias_stored_transposed", R"(
graph @main(%x: T[batch, seq, 64]) ranges {batch: 1..64, seq: 1..512} {
  %w = const T[64, 96] random(1)
  %b = const T[96] random(2)
  %p = MatMul(%x, %w)
  %s = Add(%p, %b)
  %y = Transpose(%s) {perm = [0, 2, 1]}
  %h = Reshape(%s) {shape = [batch, seq, 4, 24]}
  %z = Transpose(%h) {perm = [0, 2, 1, 3]}
  %q = MatMul(%x, %w)
  %t = Transpose(%q) {perm = [0, 2, 1]}
  return y = %y, z = %z, t = %t
})",
       kBatchSizes},
      {"matmul_scaled", R"(
graph @main(%x: T[batch, seq, 64], %y: T[batch, 64, seq]) ranges {batch: 1..64, seq: 1..512} {
  %scale = const T[] {0.125}
  %p = MatMul(%x, %y)
  %s = Mul(%p, %scale)
  return s = %s
})",
       kBatchSizes},
      // Stored as it was summed up: 16-bit operands, a float32 result.
      {"matmul_into_float32",
       R"(
graph @main(%x: T[rows, 256]) ranges {rows: 1..4096} {
  %w = const T[256, 192] random(7)
  %z = MatMul(%x, %w)
  %k = const T[] {0.125}
  %s = Mul(%z, %k)
  %c = Cast(%s) {to = f32}
  %p = Softmax(%c) {axis = 1}
  return c = %c, p = %p
})",
       kRowSizes},
      {"matmul_transposed", R"(
graph @main(%x: T[batch, 64, seq], %y: T[batch, 32, 64]) ranges {batch: 1..64, seq: 1..512} {
  %xt = Transpose(%x) {perm = [0, 2, 1]}
  %yt = Transpose(%y) {perm = [0, 2, 1]}
  %p = MatMul(%xt, %yt)
  %q = Transpose(%p) {perm = [0, 2, 1]}
  return p = %p, q = %q
})",
       kBatchSizes},
      {"matmul_broadcast_batch", R"(
graph @main(%x: T[batch, 3, seq, 16], %y: T[3, 16, 24], %z: T[1, 24, 8])
  ranges {batch: 1..64, seq: 1..512} {
  %p = MatMul(%x, %y)
  %q = MatMul(%p, %z)
  return p = %p, q = %q
})",
       kBatchSizes},
      {"attention", R"(
graph @main(%x: T[batch, seq, 64], %mask: i64[batch, seq]) ranges {batch: 1..64, seq: 1..512} {
  %wq = const T[64, 64] random(1)
  %wk = const T[64, 64] random(2)
  %wv = const T[64, 64] random(3)
  %scale = const T[] {0.05}
  %low = const T[] {-10000}
  %zero = const i64[] {0}
  %q0 = MatMul(%x, %wq)
  %k0 = MatMul(%x, %wk)
  %v0 = MatMul(%x, %wv)
  %q1 = Reshape(%q0) {shape = [batch, seq, 4, 16]}
  %k1 = Reshape(%k0) {shape = [batch, seq, 4, 16]}
  %v1 = Reshape(%v0) {shape = [batch, seq, 4, 16]}
  %q = Transpose(%q1) {perm = [0, 2, 1, 3]}
  %k = Transpose(%k1) {perm = [0, 2, 3, 1]}
  %v = Transpose(%v1) {perm = [0, 2, 1, 3]}
  %qk = MatMul(%q, %k)
  %s = Mul(%qk, %scale)
  %m0 = Reshape(%mask) {shape = [batch, 1, 1, seq]}
  %m = GreaterOrEqual(%m0, %zero)
  %w = Where(%m, %s, %low)
  %p = Softmax(%w) {axis = 3}
  %o0 = MatMul(%p, %v)
  %o1 = Transpose(%o0) {perm = [0, 2, 1, 3]}
  %o = Reshape(%o1) {shape = [batch, seq, 64]}
  return o = %o
})",
       kBatchSizes},
      // Sizes for which every schedule of the attention kernel runs.
      {"attention_schedules",
       R"(
graph @main(%qkv: T[batch, seq, 384], %keep: bool[batch, seq]) ranges {batch: 1..4096, seq: 1..4096} {
  %q0 = Slice(%qkv) {starts = [0, 0, 0], steps = [1, 1, 1], shape = [batch, seq, 128]}
  %k0 = Slice(%qkv) {starts = [0, 0, 128], steps = [1, 1, 1], shape = [batch, seq, 128]}
  %v0 = Slice(%qkv) {starts = [0, 0, 256], steps = [1, 1, 1], shape = [batch, seq, 128]}
  %q1 = Reshape(%q0) {shape = [batch, seq, 2, 64]}
  %k1 = Reshape(%k0) {shape = [batch, seq, 2, 64]}
  %v1 = Reshape(%v0) {shape = [batch, seq, 2, 64]}
  %q = Transpose(%q1) {perm = [0, 2, 1, 3]}
  %k = Transpose(%k1) {perm = [0, 2, 1, 3]}
  %v = Transpose(%v1) {perm = [0, 2, 1, 3]}
  %mask = Reshape(%keep) {shape = [batch, 1, 1, seq]}
  %y = Attention(%q, %k, %v, %mask) {scale = 0.5, fill = -10000}
  %t = Transpose(%y) {perm = [0, 2, 1, 3]}
  %o = Reshape(%t) {shape = [batch, seq, 128]}
  return o = %o
})",
       {{{"batch", 1}, {"seq", 1}},
        {{"batch", 1}, {"seq", 64}},
        {{"batch", 2}, {"seq", 300}},
        {{"batch", 1}, {"seq", 1000}},
        {{"batch", 16}, {"seq", 130}},
        {{"batch", 64}, {"seq", 130}},
        {{"batch", 1100}, {"seq", 65}}}},
      // Heads that warpgroups take: rows and keys of part tiles, blocks with one item and with
      // many.
      {"attention_by_warpgroups",
       R"(
graph @main(%q: T[batch, 2, seq, 64], %k: T[batch, 2, seq, 64], %v: T[batch, 2, seq, 64],
            %wq: T[batch, 2, seq, 128], %wk: T[batch, 2, keys, 128], %wv: T[batch, 2, keys, 128],
            %n: T[batch, 2, keys, 64], %mask: bool[batch, 1, seq, seq])
  ranges {batch: 1..4096, seq: 1..4096, keys: 1..4096} {
  %a = Attention(%q, %k, %v) {scale = 0.25}
  %b = Attention(%q, %k, %v) {scale = 0.25, causal = 1}
  %c = Attention(%wq, %wk, %wv) {scale = 0.125}
  %d = Attention(%wq, %wk, %wv) {scale = 0.125, causal = 2}
  %e = Attention(%q, %k, %v, %mask) {scale = 0.25, guard = 1}
  %f = Attention(%wq, %wk, %n) {scale = 0.125}
  %g = Attention(%q, %n, %n) {scale = 0.125, causal = 2}
  return a = %a, b = %b, c = %c, d = %d, e = %e, f = %f, g = %g
})",
       {{{"batch", 1}, {"seq", 40}, {"keys", 1}},
        {{"batch", 1}, {"seq", 200}, {"keys", 777}},
        {{"batch", 1}, {"seq", 130}, {"keys", 1200}},
        {{"batch", 70}, {"seq", 65}, {"keys", 65}},
        {{"batch", 300}, {"seq", 33}, {"keys", 130}}}},
      {"attention_causal",
       R"(
graph @main(%q: T[batch, 2, seq, 128], %k: T[batch, 2, seq, 128], %v: T[batch, 2, seq, 128],
            %ck: T[batch, 2, 600, 128], %cv: T[batch, 2, 600, 128])
  ranges {batch: 1..64, seq: 1..512} {
  %a = Attention(%q, %k, %v) {scale = 0.25, causal = 1}
  %b = Attention(%q, %ck, %cv) {scale = 0.25, causal = 2}
  return a = %a, b = %b
})",
       {{{"batch", 1}, {"seq", 1}}, {{"batch", 2}, {"seq", 77}}, {{"batch", 24}, {"seq", 200}}}},
      {"attention_masks", R"(
graph @main(%q: T[batch, 3, seq, 40], %k: T[batch, 3, 90, 40], %v: T[batch, 3, 90, 24],
            %rows: bool[batch, 1, seq, 90], %none: bool[seq, 1], %bias: T[3, seq, 90])
  ranges {batch: 1..64, seq: 1..512} {
  %hidden = Xor(%none, %none)
  %a = Attention(%q, %k, %v, %rows) {scale = 0.5, guard = 1}
  %b = Attention(%q, %k, %v, %hidden) {scale = 0.5, fill = -1000}
  %c = Attention(%q, %k, %v, %hidden) {scale = 0.5}
  %d = Attention(%q, %k, %v, %hidden) {scale = 0.5, guard = 1}
  %e = Attention(%q, %k, %v, %bias) {scale = -0.5}
  return a = %a, b = %b, c = %c, d = %d, e = %e
})",
       kBatchSizes},
      {"attention_shared_keys",
       R"(
graph @main(%q: T[batch, 8, 1, 64], %k: T[batch, 2, keys, 64], %v: T[batch, 2, keys, 64],
            %p: T[batch, 8, 5, 64]) ranges {batch: 1..64, keys: 5..4096} {
  %k1 = Reshape(%k) {shape = [batch, 2, 1, keys, 64]}
  %k2 = Expand(%k1) {shape = [batch, 2, 4, keys, 64]}
  %k3 = Reshape(%k2) {shape = [batch, 8, keys, 64]}
  %v1 = Reshape(%v) {shape = [batch, 2, 1, keys, 64]}
  %v2 = Expand(%v1) {shape = [batch, 2, 4, keys, 64]}
  %v3 = Reshape(%v2) {shape = [batch, 8, keys, 64]}
  %y = Attention(%q, %k3, %v3) {scale = 0.25}
  %z = Attention(%p, %k3, %v3) {scale = 0.25, causal = 2}
  return y = %y, z = %z
})",
       {{{"batch", 1}, {"keys", 5}},
        {{"batch", 1}, {"keys", 3000}},
        {{"batch", 30}, {"keys", 700}},
        {{"batch", 40}, {"keys", 100}}}},
      {"attention_long_heads_and_odd_rows", R"(
graph @main(%x: T[batch, seq, 51], %q: T[batch, seq, 256], %k: T[batch, 70, 256],
            %v: T[batch, 70, 200]) ranges {batch: 1..64, seq: 1..512} {
  %xq = Slice(%x) {starts = [0, 0, 0], steps = [1, 1, 1], shape = [batch, seq, 16]}
  %xk = Slice(%x) {starts = [0, 0, 17], steps = [1, 1, 1], shape = [batch, seq, 16]}
  %xv = Slice(%x) {starts = [0, 0, 34], steps = [1, 1, 1], shape = [batch, seq, 16]}
  %y = Attention(%xq, %xk, %xv) {scale = 1}
  %z = Attention(%q, %k, %v) {scale = 0.125}
  return y = %y, z = %z
})",
       kBatchSizes},
      {"encoder_layer", R"(
graph @main(%ids: i64[batch, seq]) ranges {batch: 1..64, seq: 1..512} {
  %table = const T[50, 64] random(1)
  %w1 = const T[64, 256] random(2)
  %b1 = const T[256] random(3)
  %w2 = const T[256, 64] random(4)
  %b2 = const T[64] random(5)
  %g = const T[64] random(6)
  %b = const T[64] random(7)
  %small = const T[] {0.1}
  %e = Gather(%table, %ids) {axis = 0}
  %n = LayerNorm(%e, %g, %b) {axis = 2, epsilon = 1e-5}
  %s = Mul(%n, %small)
  %h0 = MatMul(%s, %w1)
  %h1 = Add(%h0, %b1)
  %h = Gelu(%h1)
  %o0 = MatMul(%h, %w2)
  %o1 = Add(%o0, %b2)
  %o = Add(%o1, %e)
  %y = LayerNorm(%o, %g, %b) {axis = 2, epsilon = 1e-5}
  %mean = ReduceMean(%y) {axes = [1], keepdims = 0}
  return y = %y, mean = %mean
})",
       kBatchSizes},
      {"product_gelu_tiles", R"(
graph @main(%x: T[rows, 384]) ranges {rows: 1..4096} {
  %small = const T[] {0.05}
  %w0 = const T[384, 1536] random(1)
  %w = Mul(%w0, %small)
  %b = const T[1536] random(2)
  %p = MatMul(%x, %w)
  %s = Add(%p, %b)
  %y = Gelu(%s)
  return y = %y
})",
       kRowSizes},
      {"product_norm_tiles", R"(
graph @main(%x: T[rows, 1536], %r: T[rows, 384]) ranges {rows: 1..4096} {
  %small = const T[] {0.05}
  %w0 = const T[1536, 384] random(1)
  %w = Mul(%w0, %small)
  %b = const T[384] random(2)
  %g = const T[384] random(3)
  %h = const T[384] random(4)
  %p = MatMul(%x, %w)
  %s = Add(%p, %b)
  %e = Add(%s, %r)
  %y = LayerNorm(%e, %g, %h) {axis = 1, epsilon = 1e-5}
  %z = Add(%y, %e)
  return y = %y, z = %z
})",
       kRowSizes},
      {"product_rows_of_weights", R"(
graph @main(%x: T[rows, 130], %w: T[50, 130], %v: T[7, 50], %r: T[rows, 7]) ranges {rows: 1..4096} {
  %small = const T[] {0.05}
  %wt = Transpose(%w) {perm = [1, 0]}
  %vt = Transpose(%v) {perm = [1, 0]}
  %p = MatMul(%x, %wt)
  %q = Mul(%p, %small)
  %t = Tanh(%q)
  %u = MatMul(%t, %vt)
  %y = Mul(%u, %r)
  return t = %t, y = %y
})",
       kRowSizes},
      {"convolution",
       R"(
graph @main(%x: T[n, 6, 20]) ranges {n: 1..64} {
  %w = const T[8, 6, 5] random(1)
  %b = const T[8] random(2)
  %c = Conv(%x, %w, %b) {strides = [1], dilations = [1], pads_begin = [2], pads_end = [2], group = 1}
  %y = Relu(%c)
  return y = %y
})",
       {{{"n", 1}}, {{"n", 5}}}},
      {"running_sums",
       R"(
graph @main(%x: T[rows, n], %scale: T[rows, 1]) ranges {rows: 1..4096, n: 1..20000} {
  %small = const T[] {0.01}
  %a = Mul(%x, %small)
  %s = Scan(%a) {axis = 1, combine = "sum"}
  %t = Mul(%s, %scale)
  %m = Scan(%x) {axis = 1, combine = "max", reverse = 1}
  %d = Scan(%x) {axis = 0, combine = "min"}
  return t = %t, m = %m, d = %d
})",
       {{{"rows", 3}, {"n", 1}},
        {{"rows", 64}, {"n", 1000}},
        {{"rows", 1}, {"n", 20000}},
        {{"rows", 700}, {"n", 33}},
        {{"rows", 64}, {"n", 1000}}}},
      {"running_products_of_known_sizes", R"(
graph @main(%x: T[40, 24], %y: T[2, 3000], %z: T[2100, 12]) {
  %a = Scan(%x) {axis = 1, combine = "prod", exclusive = 1}
  %b = Scan(%y) {axis = 1, combine = "max"}
  %c = Scan(%z) {axis = 1, combine = "sum", exclusive = 1, reverse = 1}
  return a = %a, b = %b, c = %c
})"},
      {"order",
       R"(
graph @main(%x: T[rows, n], %y: T[rows, 20], %i: i64[n, 3]) ranges {rows: 1..512, n: 9..20000} {
  %top = ArgSort(%x) {axis = 1, count = [9], descending = 1}
  %all = ArgSort(%x) {axis = 1, count = [n]}
  %few = ArgSort(%y) {axis = 1, count = [3], descending = 1}
  %columns = ArgSort(%i) {axis = 0, count = [n]}
  %r = Iota() {shape = [rows, 1]}
  %v = Take(%x, %r, %top)
  %p = Softmax(%v) {axis = 1}
  return top = %top, all = %all, few = %few, columns = %columns, p = %p
})",
       {{{"rows", 2}, {"n", 9}},
        {{"rows", 300}, {"n", 100}},
        {{"rows", 3}, {"n", 2048}},
        {{"rows", 1}, {"n", 20000}},
        {{"rows", 5}, {"n", 7001}}}},
  };
}

}  // namespace

const std::vector<Case>& cases() {
  static const std::vector<Case> all = make_cases();
  return all;
}

const Case& case_named(const std::string& name) {
  for (const Case& test : cases())
    if (test.name == name) return test;
  throw std::logic_error("no case " + name);
}

ir::Graph graph_of(const Case& test, DType type) {
  static const std::regex pattern("\\bT\\[");
  return ir::parse_graph(
      std::regex_replace(test.text, pattern, std::string(to_string(type)) + "["));
}

}  // namespace sinter::gpu_test
