// SPDX-License-Identifier: Apache-2.0
// Idioms of exporters. To add one: a row here, and a case in tests/fusion/goldens/recognise.
#include "fusion/patterns/pattern.h"

namespace sinter::fusion {

const std::vector<Idiom>& idioms() {
  // Larger ones first: a norm with scale and bias before the one without.
  static const std::vector<Idiom> rows = {
      // ---- LayerNorm. Variance as the mean of squared deviations or, in jax and TensorFlow,
      // E[x^2] - E[x]^2, with or without a guard against negative rounding errors.
      {"layer_norm_scale_bias",
       "(x - RowMean(x)) * Rsqrt(RowMean((x - RowMean(x)) * (x - RowMean(x))) + $eps) * scale + "
       "bias",
       "LayerNorm(x, scale, bias)"},
      {"layer_norm_scale",
       "(x - RowMean(x)) * Rsqrt(RowMean((x - RowMean(x)) * (x - RowMean(x))) + $eps) * scale",
       "LayerNorm(x, scale)"},
      {"layer_norm",
       "(x - RowMean(x)) * Rsqrt(RowMean((x - RowMean(x)) * (x - RowMean(x))) + $eps)",
       "LayerNorm(x, 1)"},
      {"layer_norm_moments_guarded",
       "(x - RowMean(x)) * Rsqrt(Max(RowMean(x * x) - RowMean(x) * RowMean(x), 0) + $eps) * scale "
       "+ bias",
       "LayerNorm(x, scale, bias)"},
      {"layer_norm_moments",
       "(x - RowMean(x)) * Rsqrt(RowMean(x * x) - RowMean(x) * RowMean(x) + $eps) * scale + bias",
       "LayerNorm(x, scale, bias)"},

      // ---- Variance from moments, which cancels if the mean is large, in any context.
      {"variance_moments_guarded", "Max(RowMean(x * x) - RowMean(x) * RowMean(x), 0)",
       "Variance(x)"},
      {"variance_moments", "RowMean(x * x) - RowMean(x) * RowMean(x)", "Variance(x)"},

      // ---- RMSNorm
      {"rms_norm_scale", "x * Rsqrt(RowMean(x * x) + $eps) * scale", "RmsNorm(x, scale)"},
      {"rms_norm", "x * Rsqrt(RowMean(x * x) + $eps)", "RmsNorm(x, 1)"},

      // ---- Softmax
      {"softmax", "Exp(x - RowMax(x)) / RowSum(Exp(x - RowMax(x)))", "Softmax(x)"},

      // ---- GELU
      {"gelu_erf", "x * 0.5 * (1 + Erf(x * 0.7071067811865476))", "Gelu(x)"},
      {"gelu_tanh", "x * 0.5 * (1 + Tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))",
       "GeluTanh(x)"},
      {"gelu_tanh_factored",
       "x * 0.5 * (1 + Tanh(0.7978845608028654 * x * (1 + 0.044715 * x * x)))", "GeluTanh(x)"},
      {"gelu_tanh_expanded",
       "x * 0.5 * (1 + Tanh(0.7978845608028654 * x + 0.035677408136300125 * x * x * x))",
       "GeluTanh(x)"},

      // ---- others
      {"silu", "x * Sigmoid(x)", "Silu(x)"},
      {"sigmoid", "Inverse(1 + Exp(Neg(x)))", "Sigmoid(x)"},
      {"silu_spelled", "x / (1 + Exp(Neg(x)))", "Silu(x)"},
      {"square", "x * x", "Square(x)"},
      {"hard_swish", "x * HardSigmoid(x, y, z)", "HardSwish(x, y, z)"},
      {"hard_swish_clipped", "x * Clip(x + 3, 0, 6) * 0.16666666666666666",
       "HardSwish(x, 0.16666666666666666, 0.5)"},
      {"hard_sigmoid_clipped", "Clip(x + 3, 0, 6) * 0.16666666666666666",
       "HardSigmoid(x, 0.16666666666666666, 0.5)"},
  };
  return rows;
}

}  // namespace sinter::fusion
