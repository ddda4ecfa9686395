// SPDX-License-Identifier: Apache-2.0
// A thread turns one pair of elements. `angles`: pairs of all tokens.
extern "C" __global__ void interleaved_rotary(const types::x* x, const types::cos* cos,
                                              const types::sin* sin, types::y* y, long long elements,
                                              long long angles) {
  const long long pair = blockIdx.x * 256LL + threadIdx.x;
  if (pair >= elements / 2) return;
  const float a = widen(x[2 * pair]), b = widen(x[2 * pair + 1]);
  const float c = widen(cos[pair % angles]), s = widen(sin[pair % angles]);
  y[2 * pair] = narrow<types::y>(a * c - b * s);
  y[2 * pair + 1] = narrow<types::y>(a * s + b * c);
}
