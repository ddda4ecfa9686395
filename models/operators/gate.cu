// SPDX-License-Identifier: Apache-2.0
// A warp finds the two largest logits of a token; of equal ones the first, as TopK does.
struct Best {
  float value;
  int expert;
};

__device__ bool is_before(Best a, Best b) {
  return a.value > b.value || (a.value == b.value && a.expert < b.expert);
}

__device__ void take(Best candidate, Best (&best)[2]) {
  if (is_before(candidate, best[0])) {
    best[1] = best[0];
    best[0] = candidate;
  } else if (is_before(candidate, best[1])) {
    best[1] = candidate;
  }
}

extern "C" __global__ void top_two_gate(const types::logits* logits, types::weights* weights,
                                        long long* experts, long long tokens, long long count) {
  const long long token = blockIdx.x * 4LL + threadIdx.y;
  if (token >= tokens) return;
  const Best none = {-__int_as_float(0x7f800000), 0x7fffffff};
  Best best[2] = {none, none};
  for (int expert = threadIdx.x; expert < count; expert += 32)
    take({widen(logits[token * count + expert]), expert}, best);
  for (int distance = 16; distance > 0; distance /= 2) {
    Best other[2];
    for (int i = 0; i < 2; ++i)
      other[i] = {__shfl_xor_sync(0xffffffffu, best[i].value, distance),
                  __shfl_xor_sync(0xffffffffu, best[i].expert, distance)};
    for (int i = 0; i < 2; ++i)
      if (other[i].expert != best[0].expert && other[i].expert != best[1].expert) take(other[i], best);
  }
  if (threadIdx.x != 0) return;
  const float second = expf(best[1].value - best[0].value), sum = 1 + second;
  weights[2 * token] = narrow<types::weights>(1 / sum);
  weights[2 * token + 1] = narrow<types::weights>(second / sum);
  experts[2 * token] = best[0].expert;
  experts[2 * token + 1] = best[1].expert;
}
