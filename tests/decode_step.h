// SPDX-License-Identifier: Apache-2.0
// A decoder's step over a cache of fixed length, as PyTorch exports it: one layer's attention.
#pragma once

namespace sinter::tests {

/// Inputs x, position, key and value; outputs y and the caches' next values.
inline constexpr const char* kDecodeStep = R"(
graph @main(%x: f16[2, 1, 128], %position: i64[1], %key: f16[2, 2, 96, 32], %value: f16[2, 2, 96, 32]) {
  %cos = const f16[96, 32] random(1)
  %sin = const f16[96, 32] random(2)
  %c = Gather(%cos, %position) {axis = 0}
  %s = Gather(%sin, %position) {axis = 0}
  %wq = const f16[128, 128] random(3)
  %wk = const f16[128, 64] random(4)
  %wv = const f16[128, 64] random(5)
  %tenth = const f16[] {0.1}
  %x1 = Mul(%x, %tenth)
  %q = MatMul(%x1, %wq)
  %q4 = Reshape(%q) {shape = [2, 4, 1, 32]}
  %qa = Slice(%q4) {starts = [0, 0, 0, 0], steps = [1, 1, 1, 1], shape = [2, 4, 1, 16]}
  %qb = Slice(%q4) {starts = [0, 0, 0, 16], steps = [1, 1, 1, 1], shape = [2, 4, 1, 16]}
  %qn = Neg(%qb)
  %qt = Concat(%qn, %qa) {axis = 3}
  %qc = Mul(%q4, %c)
  %qs = Mul(%qt, %s)
  %qr = Add(%qc, %qs)
  %k = MatMul(%x1, %wk)
  %k4 = Reshape(%k) {shape = [2, 2, 1, 32]}
  %ka = Slice(%k4) {starts = [0, 0, 0, 0], steps = [1, 1, 1, 1], shape = [2, 2, 1, 16]}
  %kb = Slice(%k4) {starts = [0, 0, 0, 16], steps = [1, 1, 1, 1], shape = [2, 2, 1, 16]}
  %kn = Neg(%kb)
  %kt = Concat(%kn, %ka) {axis = 3}
  %kc = Mul(%k4, %c)
  %ks = Mul(%kt, %s)
  %kr = Add(%kc, %ks)
  %v = MatMul(%x1, %wv)
  %v4 = Reshape(%v) {shape = [2, 2, 1, 32]}
  %place = Reshape(%position) {shape = [1, 1, 1, 1]}
  %head = Iota() {shape = [1, 1, 2, 1], axis = 2, dtype = i64}
  %sample = Iota() {shape = [1, 2, 1, 1], axis = 1, dtype = i64}
  %column = Iota() {shape = [1, 1, 1, 32], axis = 3, dtype = i64}
  %key_t = Transpose(%key) {perm = [2, 0, 1, 3]}
  %k_t = Transpose(%kr) {perm = [2, 0, 1, 3]}
  %key_s = Scatter(%key_t, %k_t, %place, %sample, %head, %column)
  %key_next = Transpose(%key_s) {perm = [1, 2, 0, 3]}
  %value_t = Transpose(%value) {perm = [2, 0, 1, 3]}
  %v_t = Transpose(%v4) {perm = [2, 0, 1, 3]}
  %value_s = Scatter(%value_t, %v_t, %place, %sample, %head, %column)
  %value_next = Transpose(%value_s) {perm = [1, 2, 0, 3]}
  %keys5 = Reshape(%key_next) {shape = [2, 2, 1, 96, 32]}
  %keys_e = Expand(%keys5) {shape = [2, 2, 2, 96, 32]}
  %keys = Reshape(%keys_e) {shape = [2, 4, 96, 32]}
  %values5 = Reshape(%value_next) {shape = [2, 2, 1, 96, 32]}
  %values_e = Expand(%values5) {shape = [2, 2, 2, 96, 32]}
  %values = Reshape(%values_e) {shape = [2, 4, 96, 32]}
  %number = Iota() {shape = [96], axis = 0, dtype = i64}
  %seen = LessOrEqual(%number, %position)
  %seen4 = Reshape(%seen) {shape = [1, 1, 1, 96]}
  %zero = const f16[] {0}
  %low = const f16[] {-65504}
  %mask = Where(%seen4, %zero, %low)
  %scale = const f16[] {0.17677669}
  %qq = Mul(%qr, %scale)
  %keys_t = Transpose(%keys) {perm = [0, 1, 3, 2]}
  %scores = MatMul(%qq, %keys_t)
  %masked = Add(%scores, %mask)
  %weights = Softmax(%masked) {axis = 3}
  %none = IsNan(%weights)
  %guarded = Where(%none, %zero, %weights)
  %a = MatMul(%guarded, %values)
  %at = Transpose(%a) {perm = [0, 2, 1, 3]}
  %y = Reshape(%at) {shape = [2, 1, 128]}
  return y = %y, key_next = %key_next, value_next = %value_next
})";

}  // namespace sinter::tests
