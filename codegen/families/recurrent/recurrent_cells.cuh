// SPDX-License-Identifier: Apache-2.0
// Cells of recurrent layers, with the gates in ONNX's order. kProducts: matmuls of weights and
// state in each step. x is the input's contribution to the gates, h the latest matmul's.
#pragma once

#include "approximate.cuh"

/// Gates for elements of type T. 16 bits: relative error 2^-21 of a sigmoid, absolute of a tanh.
template <class T>
struct RecurrentGates {
  SINTER_DEVICE static float sigmoid(float a) {
    return reciprocal_of_normal(1.0f + power_of_two(minimum(a * -1.44269504f, 120.0f)));
  }
  SINTER_DEVICE static float tanh(float a) { return fmaf(2.0f, sigmoid(2.0f * a), -1.0f); }
};
/// As the loop of the same layer computes them.
template <>
struct RecurrentGates<float> {
  SINTER_DEVICE static float sigmoid(float a) { return 1.0f / (1.0f + exponential(-a)); }
  SINTER_DEVICE static float tanh(float a) { return hyperbolic_tangent(a); }
};
struct LstmCell {
  static constexpr int kGates = 4, kProducts = 1;
  static constexpr bool kHasCell = true;
  template <class Gates>
  SINTER_DEVICE static void step(const float (&x)[4], const float (&h)[4], const float (&)[4],
                                 float& state, float& cell) {
    const float in = Gates::sigmoid(x[0] + h[0]), out = Gates::sigmoid(x[1] + h[1]);
    const float forget = Gates::sigmoid(x[2] + h[2]), fresh = Gates::tanh(x[3] + h[3]);
    cell = fmaf(forget, cell, in * fresh);
    state = out * Gates::tanh(cell);
  }
};
/// The reset gate applies after the matmul (linear_before_reset).
struct GruCell {
  static constexpr int kGates = 3, kProducts = 1;
  static constexpr bool kHasCell = false;
  template <class Gates>
  SINTER_DEVICE static void step(const float (&x)[4], const float (&h)[4], const float (&bias)[4],
                                 float& state, float&) {
    const float update = Gates::sigmoid(x[0] + h[0] + bias[0]);
    const float reset = Gates::sigmoid(x[1] + h[1] + bias[1]);
    const float fresh = Gates::tanh(fmaf(reset, h[2] + bias[2], x[2]));
    state = fmaf(update, state - fresh, fresh);
  }
};
/// The reset gate applies to the state before the candidate's matmul.
struct ResetFirstGruCell {
  static constexpr int kGates = 3, kProducts = 2;
  static constexpr bool kHasCell = false;
  /// Returns the state for the second matmul, and stores the update gate.
  template <class Gates>
  SINTER_DEVICE static float first(const float (&x)[4], const float (&h)[4], float state,
                                   float& update) {
    update = Gates::sigmoid(x[0] + h[0]);
    return Gates::sigmoid(x[1] + h[1]) * state;
  }
  template <class Gates>
  SINTER_DEVICE static void second(const float (&x)[4], const float (&h)[4], float update,
                                   float& state) {
    const float fresh = Gates::tanh(x[2] + h[2]);
    state = fmaf(update, state - fresh, fresh);
  }
};
struct RnnCell {
  static constexpr int kGates = 1, kProducts = 1;
  static constexpr bool kHasCell = false;
  template <class Gates>
  SINTER_DEVICE static void step(const float (&x)[4], const float (&h)[4], const float (&)[4],
                                 float& state, float&) {
    state = Gates::tanh(x[0] + h[0]);
  }
};
